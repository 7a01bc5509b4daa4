//! What is compared beside the host, opened.

use super::call::Function;
use super::instance::Instance;
use super::operation::Operation;
use super::variant::{By, Variant};
use ferrorail_engine::Facts;
use ferrorail_mpi_abi::Comm;
use std::ffi::c_int;

/// What is compared beside the host.
pub struct Contender {
    /// Its name and settings; none for the library as the environment has it.
    pub variant: Option<Variant>,
    /// The copy of the library; none for raw multicast and plain programs.
    pub instance: Option<Instance>,
}

impl Contender {
    /// What stands for it in tables.
    pub fn name(&self, operation: &Operation) -> String {
        match (&self.variant, &self.instance) {
            (Some(variant), _) => {
                let name = variant.names.get(operation.name);
                name.unwrap_or(&variant.label).clone()
            }
            (None, Some(instance)) => instance.algorithm(operation),
            (None, None) => String::new(),
        }
    }

    /// Calls that it left to the host so far.
    pub fn forwarded(&self, operation: &Operation) -> u64 {
        let instance = self.instance.as_ref();
        instance.map_or(0, |instance| instance.forwarded(operation))
    }

    /// Multicasts sent so far, if that matters.
    pub fn multicasts(&self) -> Option<u64> {
        let is_wanted = self.variant.as_ref()?.by == By::Multicast;
        is_wanted.then_some(self.instance.as_ref()?.multicasts())
    }

    /// What rules see of the ranks of `comm`, once it has been called there.
    pub fn facts(&self, comm: Comm) -> Option<Facts> {
        self.instance.as_ref()?.facts(comm)
    }

    /// Whether it is compared in `operation`.
    pub fn is_about(&self, operation: &Operation) -> bool {
        let variant = self.variant.as_ref();
        variant.is_none_or(|variant| variant.is_about(operation))
    }

    /// Its barrier.
    pub fn barrier(&self, comm: Comm) -> c_int {
        let instance = self.instance.as_ref();
        instance.map_or(0, |instance| instance.barrier(comm))
    }

    /// Its implementation of `operation`, if the library has one.
    pub fn function(&self, operation: &Operation) -> Option<Function> {
        self.instance.as_ref()?.function(operation)
    }
}
