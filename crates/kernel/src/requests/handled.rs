//! The requests that a capability had, after everything else about them was let go of.
//!
//! Whatever an actor says names its cause, and it may say it long after it answered: so that it had
//! the request is known for longer than the request's answer. All that is kept is the hash of the
//! id, and the workflow. It is looked at rarely and from the newest on, so it is one row in the
//! order in which requests ended.

use super::causes::Workflow;
use mainspring_message::Text;
use std::collections::VecDeque;

/// Requests that are kept for one capability. Beyond: the oldest is forgotten, and counted.
const REQUESTS_MAX: usize = 32_768;
/// Requests that are forgotten at once at that bound.
const ROOM: usize = 256;
/// Bytes of their workflows; same policy.
const WORKFLOW_BYTES_MAX: usize = 1 << 20;

/// A request that a capability had.
#[derive(Clone, Copy, Debug)]
struct Had {
    /// Hash of its id.
    hash: u64,
    ended_ns: i64,
    /// Where its workflow begins, counted from the first byte that was ever kept.
    workflow_at: u64,
    /// Bytes of its correlation, and of its traceparent behind that; 0 if it has none.
    correlation_bytes: u16,
    traceparent_bytes: u16,
}

impl Had {
    fn workflow_bytes(self) -> usize {
        usize::from(self.correlation_bytes) + usize::from(self.traceparent_bytes)
    }
}

/// The last requests that one capability had.
#[derive(Debug, Default)]
pub(super) struct Handled {
    requests: VecDeque<Had>,
    workflows: VecDeque<u8>,
    /// Bytes of workflows that were ever kept, and of those that were forgotten.
    kept_bytes: u64,
    forgotten_bytes: u64,
}

impl Handled {
    /// Adds a request. Once in a while those that ended at `over_ns` or before are forgotten;
    /// returns how many went before that.
    #[inline]
    pub(super) fn push(&mut self, hash: u64, ended_ns: i64, workflow: &Workflow, over_ns: i64) -> u64 {
        let mut early = 0;
        if self.requests.len().is_multiple_of(ROOM) {
            early = self.make_room(0, over_ns);
        }
        let mut had =
            Had { hash, ended_ns, workflow_at: self.kept_bytes, correlation_bytes: 0, traceparent_bytes: 0 };
        if let Some(correlation) = &workflow.correlation {
            had.correlation_bytes = self.keep(correlation, over_ns, &mut early);
        }
        if let Some(traceparent) = &workflow.traceparent {
            had.traceparent_bytes = self.keep(traceparent, over_ns, &mut early);
        }
        self.requests.push_back(had);
        early
    }

    /// Keeps a name, which is at most 256 bytes long; returns how long it is.
    fn keep(&mut self, name: &str, over_ns: i64, early: &mut u64) -> u16 {
        *early += self.make_room(name.len(), over_ns);
        self.workflows.extend(name.as_bytes());
        self.kept_bytes += name.len() as u64;
        name.len() as u16
    }

    /// Forgets what is over, and the oldest beyond the bounds: a few more than must be, so that
    /// this is rare.
    #[cold]
    fn make_room(&mut self, bytes: usize, over_ns: i64) -> u64 {
        let requests_max =
            if self.requests.len() >= REQUESTS_MAX { REQUESTS_MAX - ROOM } else { REQUESTS_MAX };
        let mut early = 0;
        while let Some(oldest) = self.requests.front() {
            let is_over = oldest.ended_ns <= over_ns;
            let is_full =
                self.requests.len() > requests_max || self.workflows.len() + bytes > WORKFLOW_BYTES_MAX;
            if !is_over && !is_full {
                break;
            }
            early += u64::from(!is_over);
            let forgotten = oldest.workflow_bytes();
            self.requests.pop_front();
            if forgotten > 0 {
                self.workflows.drain(..forgotten);
                self.forgotten_bytes += forgotten as u64;
            }
        }
        early
    }

    /// The workflow of the latest request whose id has this hash, if there is such a request.
    pub(super) fn find(&self, hash: u64) -> Option<Workflow> {
        let had = self.requests.iter().rev().find(|had| had.hash == hash)?;
        let from = (had.workflow_at - self.forgotten_bytes) as usize;
        let between = from + usize::from(had.correlation_bytes);
        let to = from + had.workflow_bytes();
        Some(Workflow { correlation: self.text(from, between), traceparent: self.text(between, to) })
    }

    fn text(&self, from: usize, to: usize) -> Option<Text> {
        let bytes: Vec<u8> = self.workflows.range(from..to).copied().collect();
        // It was text, so it is text.
        let text = String::from_utf8(bytes).unwrap_or_default();
        (!text.is_empty()).then(|| text.as_str().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workflow(correlation: Option<&str>, traceparent: Option<&str>) -> Workflow {
        Workflow { correlation: correlation.map(Into::into), traceparent: traceparent.map(Into::into) }
    }

    fn numbered(number: u64) -> Workflow {
        let correlation = (!number.is_multiple_of(3)).then(|| format!("flow-{number}"));
        let traceparent = (number % 5 > 2).then(|| format!("00-{number}"));
        workflow(correlation.as_deref(), traceparent.as_deref())
    }

    #[test]
    fn the_last_requests_are_found_with_their_workflows() {
        let mut handled = Handled::default();
        let mut early = 0;
        for number in 0..2 * REQUESTS_MAX as u64 {
            early += handled.push(number, number as i64, &numbered(number), -1);
        }
        let kept = handled.requests.len();
        assert!((REQUESTS_MAX - ROOM..=REQUESTS_MAX).contains(&kept), "{kept}");
        assert_eq!(early, (2 * REQUESTS_MAX - kept) as u64);
        assert!(handled.find(early - 1).is_none());
        for number in [early, early + 1, 2 * REQUESTS_MAX as u64 - 1] {
            assert_eq!(handled.find(number).unwrap(), numbered(number), "{number}");
        }
    }

    #[test]
    fn what_is_over_goes_uncounted_and_workflows_are_bounded_in_bytes() {
        let mut handled = Handled::default();
        assert_eq!(handled.push(1, 10, &workflow(Some("flow"), None), 0), 0);
        assert_eq!(handled.push(2, 20, &workflow(None, Some("00-1")), 10), 0);
        assert!(handled.find(1).is_none());
        let long = workflow(Some(&"x".repeat(200)), Some(&"y".repeat(56)));
        let early: u64 = (0..10_000).map(|number| handled.push(number, 30, &long, 20)).sum();
        assert_eq!(early, 10_000 - (WORKFLOW_BYTES_MAX / 256) as u64);
        assert!(handled.workflows.len() <= WORKFLOW_BYTES_MAX);
    }
}
