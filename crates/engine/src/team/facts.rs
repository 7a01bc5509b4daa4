//! What rules see of a team.

use crate::Team;
use crate::plan::selector;
use ferrorail_coll::Collective;
use serde::Serialize;

/// The facts that rules limit, but for those of a call and times that ranks measure. The C function `ferrorail_facts` has
/// them in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[repr(C)]
pub struct Facts {
    /// Ranks of the team.
    pub ranks: u32,
    /// Its nodes.
    pub nodes: u32,
    /// Ranks of its largest node.
    pub node_size: u32,
    /// Domains of the node that has most; 1 where there are none.
    pub domains: u32,
    /// 1 if each rank has a core of its own, 2 if not.
    pub ranks_per_core: u32,
    /// Rails; 1 on one node.
    pub rails: u32,
    /// k.
    pub ports: u32,
}

impl Team {
    /// What rules see of it.
    pub fn facts(&self) -> Facts {
        let state = self.state();
        let query = selector(&self.map, state.plans.found()).query(Collective::Barrier, 0);
        Facts {
            ranks: query.ranks,
            nodes: query.nodes,
            node_size: query.node_size_max,
            domains: query.domains,
            ranks_per_core: query.ranks_per_core,
            rails: query.rails.into(),
            ports: query.ports.into(),
        }
    }
}
