//! An ask in one process, with the usual actor libraries: a line goes in and comes back, unread.
//!
//! For scale only: these carry a Rust value from one task to another. They do not parse, validate,
//! route by name, watch a deadline or remember an answer.

use actix::prelude::{Actor as _, Addr, Context, Handler, ResponseFuture};
use tokio::runtime::Runtime;

/// A runtime of one thread, as the loop has.
fn one_thread() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be built")
}

/// Something that is asked.
pub(crate) trait Asked {
    /// Asks so many times and waits for each answer.
    fn ask(&mut self, times: usize, line: &str);
}

pub(crate) struct Ractor {
    runtime: Runtime,
    actor: ractor::ActorRef<RactorMessage>,
}

struct RactorEcho;

pub(crate) enum RactorMessage {
    Say(String, ractor::RpcReplyPort<String>),
}

impl ractor::Actor for RactorEcho {
    type Msg = RactorMessage;
    type State = ();
    type Arguments = ();

    async fn pre_start(
        &self,
        _: ractor::ActorRef<RactorMessage>,
        (): (),
    ) -> Result<(), ractor::ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        _: ractor::ActorRef<RactorMessage>,
        message: RactorMessage,
        (): &mut (),
    ) -> Result<(), ractor::ActorProcessingErr> {
        let RactorMessage::Say(line, reply) = message;
        Ok(reply.send(line)?)
    }
}

impl Ractor {
    pub(crate) fn new() -> Ractor {
        let runtime = one_thread();
        let (actor, _) =
            runtime.block_on(ractor::Actor::spawn(None, RactorEcho, ())).expect("the actor can be spawned");
        Ractor { runtime, actor }
    }
}

impl Asked for Ractor {
    fn ask(&mut self, times: usize, line: &str) {
        self.runtime.block_on(async {
            for _ in 0..times {
                let reply = ractor::call!(self.actor, RactorMessage::Say, line.to_owned());
                assert_eq!(reply.expect("it answers").len(), line.len());
            }
        });
    }
}

pub(crate) struct Kameo {
    runtime: Runtime,
    actor: kameo::actor::ActorRef<KameoEcho>,
}

#[derive(kameo::Actor)]
pub(crate) struct KameoEcho;

struct KameoSay(String);

impl kameo::message::Message<KameoSay> for KameoEcho {
    type Reply = String;

    async fn handle(&mut self, say: KameoSay, _: &mut kameo::message::Context<Self, String>) -> String {
        say.0
    }
}

impl Kameo {
    pub(crate) fn new() -> Kameo {
        let runtime = one_thread();
        let actor = runtime.block_on(async { <KameoEcho as kameo::actor::Spawn>::spawn(KameoEcho) });
        Kameo { runtime, actor }
    }
}

impl Asked for Kameo {
    fn ask(&mut self, times: usize, line: &str) {
        self.runtime.block_on(async {
            for _ in 0..times {
                let reply = self.actor.ask(KameoSay(line.to_owned())).await;
                assert_eq!(reply.expect("it answers").len(), line.len());
            }
        });
    }
}

pub(crate) struct Actix {
    runner: actix_rt::SystemRunner,
    actor: Addr<ActixEcho>,
}

pub(crate) struct ActixEcho;

struct ActixSay(String);

impl actix::Message for ActixSay {
    type Result = String;
}

impl actix::Actor for ActixEcho {
    type Context = Context<Self>;
}

impl Handler<ActixSay> for ActixEcho {
    type Result = ResponseFuture<String>;

    fn handle(&mut self, say: ActixSay, _: &mut Context<Self>) -> ResponseFuture<String> {
        Box::pin(async move { say.0 })
    }
}

impl Actix {
    pub(crate) fn new() -> Actix {
        let runner = actix_rt::System::new();
        let actor = runner.block_on(async { ActixEcho.start() });
        Actix { runner, actor }
    }
}

impl Asked for Actix {
    fn ask(&mut self, times: usize, line: &str) {
        self.runner.block_on(async {
            for _ in 0..times {
                let reply = self.actor.send(ActixSay(line.to_owned())).await;
                assert_eq!(reply.expect("it answers").len(), line.len());
            }
        });
    }
}
