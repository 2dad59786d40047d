//! What is done to which requests.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::frames::{Api, Request};

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// The request waits, and all behind it on its connection.
    HoldRequest,
    /// The request does not arrive.
    DropRequest,
    /// The request does not arrive and its connection ends.
    Cut,
    /// The broker answers, the answer waits, and all behind it on its connection.
    HoldResponse,
    /// The broker answers, the answer does not arrive.
    DropResponse,
}

/// Which requests a [`Rule`] is about, to be completed by what is done to them. Without further words it is the next one of its kind.
#[derive(Debug)]
pub struct When<'a> {
    rules: &'a Rules,
    apis: Vec<Api>,
    id: Option<String>,
    first: usize,
    always: bool,
}

/// Something that is done to requests. It is no more when this value is dropped or lifted; what it held then goes its way.
#[derive(Debug)]
pub struct Rule(Arc<State>);

#[derive(Debug)]
struct State {
    apis: Vec<Api>,
    id: Option<String>,
    /// Which of those that match is the first: 1 is the next.
    first: usize,
    always: bool,
    action: Action,
    progress: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Progress {
    /// How many requests matched.
    matched: usize,
    /// To how many it was done.
    done: usize,
    /// It matches nothing any more.
    over: bool,
    /// Nothing is held any more.
    released: bool,
}

/// All rules of a proxy.
#[derive(Debug, Default)]
pub(super) struct Rules(Mutex<Vec<Arc<State>>>);

impl Rules {
    fn list(&self) -> MutexGuard<'_, Vec<Arc<State>>> {
        self.0.lock().expect("nobody panics holding it")
    }

    pub(super) fn when(&self, apis: &[Api]) -> When<'_> {
        When {
            rules: self,
            apis: apis.to_vec(),
            id: None,
            first: 1,
            always: false,
        }
    }

    /// What is to be done to a request, by the oldest rule that has something to say.
    pub(super) fn decide(&self, request: &Request) -> Option<Applied> {
        let mut rules = self.list();
        rules.retain(|rule| !rule.progress().over);
        rules
            .iter()
            .find(|rule| rule.takes(request))
            .map(|rule| Applied(Arc::clone(rule)))
    }

    /// Ends all of them.
    pub(super) fn end(&self) {
        for rule in self.list().drain(..) {
            rule.end();
        }
    }
}

impl State {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().expect("nobody panics holding it")
    }

    fn takes(&self, request: &Request) -> bool {
        if !self.apis.contains(&request.api)
            || (self.id.is_some() && self.id != request.transactional_id)
        {
            return false;
        }
        let mut progress = self.progress();
        progress.matched += 1;
        let takes = progress.matched >= self.first;
        if takes && !self.always {
            progress.over = true;
        }
        takes
    }

    fn end(&self) {
        let mut progress = self.progress();
        progress.over = true;
        progress.released = true;
        self.changed.notify_all();
    }
}

/// A rule that has taken a request.
#[derive(Clone, Debug)]
pub(super) struct Applied(Arc<State>);

impl Applied {
    pub(super) fn action(&self) -> Action {
        self.0.action
    }

    /// Says that it was done, and waits if something is held.
    pub(super) fn done(&self) {
        let mut progress = self.0.progress();
        progress.done += 1;
        self.0.changed.notify_all();
        if matches!(self.0.action, Action::HoldRequest | Action::HoldResponse) {
            while !progress.released {
                progress = self
                    .0
                    .changed
                    .wait(progress)
                    .expect("nobody panics holding it");
            }
        }
    }
}

impl When<'_> {
    /// Only those of this transactional id.
    pub fn of(mut self, transactional_id: &str) -> Self {
        self.id = Some(transactional_id.to_owned());
        self
    }

    /// Not the next one, but the `n`th from now: 1 is the next.
    pub fn nth(mut self, n: usize) -> Self {
        self.first = n;
        self
    }

    /// Not only one, but all from that on.
    pub fn always(mut self) -> Self {
        self.always = true;
        self
    }

    /// The request waits until it is released, and all behind it on its connection, even if the client has closed it meanwhile.
    pub fn hold_request(self) -> Rule {
        self.action(Action::HoldRequest)
    }

    /// The broker does not see it, and the connection stays.
    pub fn drop_request(self) -> Rule {
        self.action(Action::DropRequest)
    }

    /// The broker does not see it, and the client's connection ends.
    pub fn cut(self) -> Rule {
        self.action(Action::Cut)
    }

    /// The broker does it; its answer waits until it is released, and all behind it on its connection.
    pub fn hold_response(self) -> Rule {
        self.action(Action::HoldResponse)
    }

    /// The broker does it; the client does not learn of it, and the connection stays.
    pub fn drop_response(self) -> Rule {
        self.action(Action::DropResponse)
    }

    fn action(self, action: Action) -> Rule {
        let state = Arc::new(State {
            apis: self.apis,
            id: self.id,
            first: self.first,
            always: self.always,
            action,
            progress: Mutex::default(),
            changed: Condvar::new(),
        });
        self.rules.list().push(Arc::clone(&state));
        Rule(state)
    }
}

impl Rule {
    /// How often it was done. Of a response, only when the broker has answered.
    pub fn count(&self) -> usize {
        self.0.progress().done
    }

    /// Waits until it was done `count` times, for `patience` at most. Whether it was.
    pub fn wait(&self, count: usize, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let mut progress = self.0.progress();
        while progress.done < count {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            (progress, _) = self
                .0
                .changed
                .wait_timeout(progress, left)
                .expect("nobody panics holding it");
        }
        true
    }

    /// Ends it; what it held goes its way.
    pub fn lift(self) {}
}

impl Drop for Rule {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(api: Api, id: &str) -> Request {
        Request {
            api,
            correlation: 0,
            transactional_id: Some(id.to_owned()),
        }
    }

    fn taken(rules: &Rules, id: &str) -> Option<Action> {
        let applied = rules.decide(&request(Api::END_TXN, id))?;
        Some(applied.action())
    }

    #[test]
    fn a_rule_takes_one_request_of_its_kind() {
        let rules = Rules::default();
        let _rule = rules.when(&[Api::END_TXN]).drop_request();
        assert!(rules.decide(&request(Api::PRODUCE, "a")).is_none());
        assert_eq!(taken(&rules, "a"), Some(Action::DropRequest));
        assert_eq!(taken(&rules, "a"), None);
    }

    #[test]
    fn it_may_take_the_second_of_an_id_and_all_from_then_on() {
        let rules = Rules::default();
        let rule = rules.when(&[Api::END_TXN]).of("b").nth(2).always().cut();
        assert_eq!(taken(&rules, "a"), None);
        assert_eq!(taken(&rules, "b"), None);
        assert_eq!(taken(&rules, "a"), None);
        assert_eq!(taken(&rules, "b"), Some(Action::Cut));
        assert_eq!(taken(&rules, "b"), Some(Action::Cut));
        rule.lift();
        assert_eq!(taken(&rules, "b"), None);
    }

    #[test]
    fn of_two_rules_the_older_one_takes_it_and_each_counts_its_own() {
        let rules = Rules::default();
        let older = rules.when(&[Api::END_TXN]).drop_request();
        let _newer = rules.when(&[Api::END_TXN]).drop_response();
        let applied = rules.decide(&request(Api::END_TXN, "a")).unwrap();
        assert_eq!(applied.action(), Action::DropRequest);
        assert_eq!(older.count(), 0, "it is not done yet");
        applied.done();
        assert!(older.wait(1, Duration::ZERO));
        assert!(!older.wait(2, Duration::ZERO));
        assert_eq!(taken(&rules, "a"), Some(Action::DropResponse));
    }

    #[test]
    fn what_is_held_waits_for_the_rule_to_end() {
        let rules = Rules::default();
        let rule = rules.when(&[Api::END_TXN]).hold_request();
        let applied = rules.decide(&request(Api::END_TXN, "a")).unwrap();
        std::thread::scope(|scope| {
            let held = scope.spawn(|| applied.done());
            assert!(rule.wait(1, Duration::from_secs(60)));
            assert!(!held.is_finished());
            rule.lift();
            held.join().unwrap();
        });
    }
}
