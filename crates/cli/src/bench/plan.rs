//! What is measured, and how: from the arguments, or from a figure that they name.

use super::figures::{self, Figure};
use super::job_sizes::JobSizes;
use super::operation::{ELEMENT_BYTES, OPERATIONS, Operation};
use super::sizes::{self, Sizes};
use super::timing::Limits;
use super::variant::{By, Variant};
use super::{Args, BUDGET, BUDGET_OF_FIGURE};
use anyhow::{Result, bail};
use ferrorail_coll::{find, find_collective};
use std::path::PathBuf;

/// Which collectives are measured, and how.
pub struct Plan {
    /// The paper's figure that is repeated.
    pub figure: Option<&'static Figure>,
    /// Collectives.
    pub operations: Vec<&'static Operation>,
    /// Bytes.
    pub sizes: Vec<usize>,
    /// How much is measured.
    pub limits: Limits,
    /// Root of rooted collectives.
    pub root: usize,
    /// Whether rooted collectives are also measured with the host's barrier.
    pub barrier: bool,
    /// What is compared; nothing for the library with the settings of the environment.
    pub variants: Vec<Variant>,
    /// Where the report goes.
    pub json: Option<PathBuf>,
    job_sizes: JobSizes,
}

impl Plan {
    /// From arguments about collectives, or a figure.
    ///
    /// # Errors
    /// One line about what cannot be measured.
    pub fn new(args: &Args) -> Result<Self> {
        let figure = figures::named(&args.collectives)?;
        if figure.is_some() && !(args.algorithms.is_empty() && args.vary.is_none()) {
            bail!("--algorithms and --vary are for collectives: a figure says what it compares");
        }
        let operations: Vec<&Operation> = match figure {
            Some(figure) => vec![Operation::named(figure.collective)?],
            None if args.all => OPERATIONS.iter().collect(),
            None => {
                let named = args.collectives.iter().map(|name| Operation::named(name));
                named.collect::<Result<_>>()?
            }
        };
        let sizes = bytes(args, figure, &operations)?;
        let variants = match figure {
            Some(figure) => figure.variants(),
            None if args.algorithms.is_empty() => args.variants(),
            None => forced(&args.algorithms, &operations)?,
        };
        let mut compared = variants.iter();
        if args.barrier && compared.any(|variant| variant.by == By::RawMulticast) {
            bail!("--barrier is for calls of MPI: raw multicasts are none");
        }
        let job_sizes = match (&args.job_sizes, figure) {
            (Some(Sizes(ranks)), _) => JobSizes::Given(ranks.clone()),
            (None, Some(figure)) => figure.job_sizes.clone(),
            (None, None) => JobSizes::Whole,
        };
        Ok(Self {
            figure,
            operations,
            sizes,
            limits: args.limits(match figure {
                Some(_) => BUDGET_OF_FIGURE,
                None => BUDGET,
            }),
            root: args.root as usize,
            barrier: args.barrier,
            variants,
            json: args.json.clone(),
            job_sizes,
        })
    }

    /// Counts and displacements of vector forms are of 31 bits.
    ///
    /// # Errors
    /// If they do not suffice for so many ranks, or there is no such root.
    pub fn check_size(&self, ranks: usize) -> Result<()> {
        if self.root >= ranks {
            bail!("--root {} is not one of {ranks} ranks", self.root);
        }
        let largest = self.sizes.iter().max().copied().unwrap_or(0);
        let total = largest.checked_mul(ranks);
        if total.is_none_or(|total| i32::try_from(total).is_err()) {
            bail!("{largest} bytes for each of {ranks} ranks are more than MPI's counts hold");
        }
        Ok(())
    }

    /// How many of `ranks` take part, one number after another.
    ///
    /// # Errors
    /// If there are too few, or the root would not take part.
    pub fn job_sizes(&self, ranks: usize) -> Result<Vec<usize>> {
        self.job_sizes.resolve(ranks, self.root + 1)
    }

    /// Whether rows say how many ranks take part.
    pub fn shows_ranks(&self) -> bool {
        self.job_sizes != JobSizes::Whole
    }
}

fn bytes(args: &Args, figure: Option<&Figure>, operations: &[&Operation]) -> Result<Vec<usize>> {
    let usual = match figure {
        Some(figure) => figure.bytes,
        None if args.all => "4:1M:4",
        None => "4:1M",
    };
    let sizes = match &args.bytes {
        Some(Sizes(sizes)) => sizes.clone(),
        None => sizes::parse(usual).expect("a range").0,
    };
    let uneven = sizes.iter().find(|&&bytes| bytes % ELEMENT_BYTES != 0);
    if let (Some(bytes), Some(operation)) = (uneven, operations.iter().find(|o| o.reduces())) {
        let name = operation.name;
        bail!("{name} adds elements of {ELEMENT_BYTES} bytes, of which {bytes} is no multiple");
    }
    Ok(sizes)
}

fn forced(algorithms: &[String], operations: &[&Operation]) -> Result<Vec<Variant>> {
    let [operation] = operations[..] else {
        bail!("--algorithms is for a single collective");
    };
    let collective = find_collective(operation.name)?;
    let forced = algorithms.iter().map(|name| {
        find(collective, name)?;
        Ok(Variant::forced(operation.name, name))
    });
    forced.collect()
}
