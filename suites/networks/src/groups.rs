//! Communicators of the ranks that differ along some grid axes only, made once.

use shardmark_comm::{Comm, CommError};
use shardmark_layers::Groups;
use shardmark_partition::step::Pass;
use shardmark_partition::{AxisSet, Coords};
use std::collections::BTreeMap;

use crate::plan::NetPlan;

/// The groups that the layers of a network ask for.
pub(crate) struct GroupMap<'c> {
    world: &'c dyn Comm,
    split: BTreeMap<AxisSet, Box<dyn Comm>>,
    alone: Vec<AxisSet>,
}

impl<'c> GroupMap<'c> {
    /// Splits the world; collective.
    pub fn new(world: &'c dyn Comm, plan: &NetPlan, at: &Coords) -> Result<Self, CommError> {
        let mut groups = GroupMap { world, split: BTreeMap::new(), alone: Vec::new() };
        let passes = [Pass::Forward, Pass::Backward];
        let collectives = plan.graph.nodes.iter().flat_map(|n| passes.map(|p| n.op.collectives(p))).flatten();
        for axes in collectives.map(|c| c.group) {
            let size = axes.parts(&plan.grid);
            if size == 1 {
                groups.alone.push(axes);
            } else if size < plan.grid.size() && !groups.split.contains_key(&axes) {
                let fixed = AxisSet::ALL.minus(axes);
                let color = fixed.index(&plan.grid, at) as u32;
                let rank = axes.index(&plan.grid, at) as u32;
                if let Some(comm) = world.split(Some(color), rank)? {
                    groups.split.insert(axes, comm);
                }
            }
        }
        Ok(groups)
    }
}

impl Groups for GroupMap<'_> {
    fn group(&self, axes: AxisSet) -> Option<&dyn Comm> {
        if self.alone.contains(&axes) || self.world.size() == 1 {
            return None;
        }
        Some(self.split.get(&axes).map_or(self.world, |c| &**c))
    }
}
