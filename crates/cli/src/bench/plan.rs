//! What is measured, and how: from the arguments, or from a figure that they name.

use super::bounds::{self, Messages, Wanted};
use super::figures::Figure;
use super::job_sizes::JobSizes;
use super::mode::{Arrival, Mode, Reuse};
use super::operation::{ELEMENT_BYTES, Form, OPERATIONS, Operation};
use super::plain::Way;
use super::sizes::Sizes;
use super::timing::Limits;
use super::variant::{By, Variant};
use super::{Args, BUDGET, BUDGET_OF_FIGURE};
use anyhow::{Result, bail};
use ferrorail_coll::find_collective;
use ferrorail_coll::named::named;
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
    /// Which buffers calls use, one after another.
    pub reuses: Vec<Reuse>,
    /// When ranks arrive, one after another.
    pub arrivals: Vec<Arrival>,
    /// Whether rooted collectives are also measured with the host's barrier.
    pub barrier: bool,
    /// What is compared; nothing for the library with the settings of the environment.
    pub variants: Vec<Variant>,
    /// Whether bounds of this machine are measured and shown.
    pub bounds: bool,
    /// Where the report goes.
    pub json: Option<PathBuf>,
    /// Where the picture goes.
    pub plot: Option<PathBuf>,
    /// Whether each row is shown as soon as it is there.
    pub shows_rows: bool,
    /// How many ranks take part.
    pub job_sizes: JobSizes,
}

impl Plan {
    /// From arguments about collectives, or a figure.
    ///
    /// # Errors
    /// One line about what cannot be measured.
    pub fn new(args: &Args, figure: Option<&'static Figure>) -> Result<Self> {
        let shown = figure.and_then(Figure::collectives);
        let operations = match shown {
            Some(shown) => all_named(&shown.names)?,
            None if args.all => OPERATIONS.iter().collect(),
            None => all_named(&args.collectives)?,
        };
        let usual = if args.all { "4:1M:4" } else { "4:1M" };
        let sizes = args.sizes_or(figure.map_or(usual, |figure| &figure.bytes));
        check_elements(&sizes, &operations)?;
        let variants = match figure {
            Some(figure) => figure.variants(),
            None if args.plain => Way::ALL.map(Variant::plain).to_vec(),
            None if args.algorithms.is_empty() => args.variants(),
            None => forced(&args.algorithms, &operations)?,
        };
        let has_modes = args.barrier || args.buffers.is_some() || args.arrival.is_some();
        if has_modes && variants.iter().any(|one| one.by == By::RawMulticast) {
            bail!(
                "--barrier, --buffers and --arrival are for calls of MPI: raw multicasts are none"
            );
        }
        Ok(Self::of(args, figure, operations, sizes, variants))
    }

    fn of(
        args: &Args,
        figure: Option<&'static Figure>,
        operations: Vec<&'static Operation>,
        sizes: Vec<usize>,
        variants: Vec<Variant>,
    ) -> Self {
        let job_sizes = figure.and_then(Figure::collectives);
        let job_sizes = job_sizes.map_or(JobSizes::Whole, |shown| shown.job_sizes.clone());
        let (budget, reuses) = match figure {
            Some(_) => (BUDGET_OF_FIGURE, vec![Reuse::Rotating]),
            None => (BUDGET, vec![Reuse::Rotating, Reuse::Warm]),
        };
        Self {
            figure,
            operations,
            sizes,
            limits: args.limits(budget),
            root: args.root as usize,
            reuses: args.buffers.clone().unwrap_or(reuses),
            arrivals: args.arrival.clone().unwrap_or(vec![Arrival::Even]),
            barrier: args.barrier,
            variants,
            bounds: figure.is_none() && args.bounds == Wanted::On,
            json: args.json.clone(),
            plot: args.plot.clone(),
            shows_rows: true,
            job_sizes: match &args.job_sizes {
                Some(Sizes(ranks)) => JobSizes::Given(ranks.clone()),
                None => job_sizes,
            },
        }
    }

    /// Whether the library as the environment has it is compared.
    pub fn compares_default(&self) -> bool {
        let mut variants = self.variants.iter();
        variants.all(|variant| matches!(variant.by, By::Plain(_)))
    }

    /// Those that bounds of the cells are measured with.
    pub fn messages(&self) -> Vec<Messages> {
        let mut all: Vec<Messages> = Vec::new();
        if !self
            .operations
            .iter()
            .any(|one| bounds::has_copies(one.name))
        {
            return all;
        }
        for &reuse in &self.reuses {
            let kinds = self.sizes.iter();
            let kinds = kinds.filter_map(|&bytes| Messages::like(bytes, reuse));
            for one in kinds {
                if !all.contains(&one) {
                    all.push(one);
                }
            }
        }
        all
    }

    /// How `operation` is measured: a barrier has no buffers, and only rooted collectives are followed by one.
    pub fn modes(&self, operation: &Operation) -> Vec<Mode> {
        let reuses = match operation.form {
            Form::Barrier => &[Reuse::Rotating],
            _ => self.reuses.as_slice(),
        };
        let barriers = match self.barrier && operation.is_rooted() {
            true => &[false, true][..],
            false => &[false],
        };
        Mode::all(reuses, &self.arrivals, barriers)
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

    /// Whether `rank` of `ranks` is one of `size` that take part: the first, or in a figure about nodes the
    /// first of each.
    pub fn takes_part(&self, rank: usize, size: usize, ranks: usize) -> bool {
        match self.node_size(size, ranks) {
            Some(node_size) => {
                let whole = ranks / (size / node_size);
                rank % whole < node_size
            }
            None => rank < size,
        }
    }

    /// Ranks of each node where `size` of `ranks` take part, if they are spread evenly over nodes.
    pub fn node_size(&self, size: usize, ranks: usize) -> Option<usize> {
        let nodes = self.figure?.machine.nodes?;
        let is_even = nodes > 1 && size.is_multiple_of(nodes) && ranks.is_multiple_of(nodes);
        is_even.then(|| size / nodes)
    }

    /// Letters of the longest name of what is compared.
    pub fn label_width(&self) -> usize {
        let lengths = self.variants.iter().map(|variant| variant.label.len());
        lengths.max().unwrap_or(0).max(20)
    }

    /// Whether rows say how many ranks take part.
    pub fn shows_ranks(&self) -> bool {
        self.job_sizes != JobSizes::Whole
    }
}

/// The collectives of these names.
///
/// # Errors
/// One line about a name that is none.
pub fn all_named(names: &[impl AsRef<str>]) -> Result<Vec<&'static Operation>> {
    let names = names.iter();
    names.map(|name| Operation::named(name.as_ref())).collect()
}

/// Whether reductions have whole elements at these sizes.
///
/// # Errors
/// One line about a size that is none.
pub fn check_elements(sizes: &[usize], operations: &[&Operation]) -> Result<()> {
    let uneven = sizes.iter().find(|&&bytes| bytes % ELEMENT_BYTES != 0);
    if let (Some(bytes), Some(operation)) = (uneven, operations.iter().find(|o| o.reduces())) {
        let name = operation.name;
        bail!("{name} adds elements of {ELEMENT_BYTES} bytes, of which {bytes} is no multiple");
    }
    Ok(())
}

fn forced(algorithms: &[String], operations: &[&Operation]) -> Result<Vec<Variant>> {
    let [operation] = operations[..] else {
        bail!("--algorithms is for a single collective");
    };
    let collective = find_collective(operation.name)?;
    let forced = algorithms.iter().map(|name| {
        named(collective, name)?;
        Ok(Variant::forced(operation.name, name))
    });
    forced.collect()
}
