//! Which orphans are to be looked at, and what is known of them: all of them each time somebody
//! asks, but some at a time.

use rustix::process::Pid;
use std::collections::{BTreeMap, VecDeque};

/// A pass over the children of this process, which may be interrupted at any place.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    /// Those that this pass has yet to look at.
    left: VecDeque<Pid>,
    /// Whether somebody asked since this pass began: there may be others by now, so another one is
    /// due.
    asked: bool,
    /// The pipes of lives that were over when this pass began.
    pipes: Vec<u64>,
    /// Those of lives that have ended since.
    next_pipes: Vec<u64>,
    /// The tags of orphans. What was read once counts: whoever changes its environment later is
    /// what it was.
    tags: BTreeMap<i32, Vec<u8>>,
}

/// What became of a process that was looked at.
#[derive(Debug)]
pub(super) enum Finding {
    /// It is no orphan.
    Child,
    /// It is reaped.
    Gone,
    /// It is there, with this tag if it has one.
    Orphan {
        /// The tag.
        tag: Option<Vec<u8>>,
    },
}

impl Sweep {
    /// Has everybody looked at who is there now.
    pub(super) fn ask(&mut self) {
        self.asked = true;
    }

    /// Has everybody asked whether it holds one of these pipes.
    pub(super) fn ask_for_holders(&mut self, pipes: &[u64]) {
        self.next_pipes.extend_from_slice(pipes);
        self.asked = true;
    }

    /// Whether somebody is still to be looked at.
    pub(super) fn has_more(&self) -> bool {
        self.asked || !self.left.is_empty()
    }

    /// The next one to look at; `list` names everybody there is.
    pub(super) fn next(&mut self, list: impl FnOnce() -> Vec<Pid>) -> Option<Pid> {
        if self.left.is_empty() {
            self.pipes.clear();
            if !std::mem::take(&mut self.asked) {
                return None;
            }
            self.pipes.append(&mut self.next_pipes);
            self.left.extend(list());
            if self.left.is_empty() {
                self.tags.clear();
            }
        }
        self.left.pop_front()
    }

    /// What was found out about one.
    pub(super) fn found(&mut self, pid: Pid, finding: Finding) {
        let number = pid.as_raw_nonzero().get();
        match finding {
            // Its number is free for another.
            Finding::Gone => drop(self.tags.remove(&number)),
            Finding::Orphan { tag: Some(tag) } => drop(self.tags.insert(number, tag)),
            Finding::Child | Finding::Orphan { tag: None } => {}
        }
    }

    /// The tag that an orphan had when it was first looked at.
    pub(super) fn known_tag(&self, pid: Pid) -> Option<&[u8]> {
        self.tags.get(&pid.as_raw_nonzero().get()).map(Vec::as_slice)
    }

    /// The pipes that nobody may hold any more.
    pub(super) fn pipes(&self) -> &[u64] {
        &self.pipes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pids(numbers: &[i32]) -> Vec<Pid> {
        numbers.iter().filter_map(|number| Pid::from_raw(*number)).collect()
    }

    #[test]
    fn who_asks_during_a_pass_gets_a_whole_one_afterwards() {
        let mut sweep = Sweep::default();
        assert_eq!(sweep.next(|| pids(&[7])), None, "nobody asked");
        sweep.ask_for_holders(&[1]);
        assert_eq!(sweep.next(|| pids(&[7, 8])), Pid::from_raw(7));
        sweep.ask_for_holders(&[2]);
        assert_eq!(sweep.pipes(), [1], "7 was not asked for the second");
        assert_eq!(sweep.next(Vec::new), Pid::from_raw(8));
        assert!(sweep.has_more());
        assert_eq!(sweep.next(|| pids(&[7, 8, 9])), Pid::from_raw(7));
        assert_eq!(sweep.pipes(), [2]);
        assert_eq!(sweep.next(Vec::new), Pid::from_raw(8));
        assert_eq!(sweep.next(Vec::new), Pid::from_raw(9));
        assert!(!sweep.has_more());
        assert_eq!(sweep.next(Vec::new), None);
        assert_eq!(sweep.pipes(), [0; 0]);
    }

    #[test]
    fn a_tag_is_known_until_its_process_is_reaped() {
        let mut sweep = Sweep::default();
        let pid = pids(&[7])[0];
        sweep.found(pid, Finding::Orphan { tag: Some(b"1.2.3".to_vec()) });
        // It has another environment now, and is what it was.
        sweep.found(pid, Finding::Orphan { tag: None });
        assert_eq!(sweep.known_tag(pid), Some(&b"1.2.3"[..]));
        sweep.found(pid, Finding::Gone);
        assert_eq!(sweep.known_tag(pid), None);
    }
}
