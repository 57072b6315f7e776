//! The orders of `examples/shop`.
//!
//! Arguments: the address of the stock's TCP server, and how many milliseconds an order may stay
//! unpaid. Every order is a task of its own, so one that waits for the stock holds up no other.

mod desk;
mod stock;

use desk::Desk;
use mainspring_guest::capability::{self, Draft, Envelope, Json, Kind, Outbox};
use mainspring_guest::{args, block_on, eprintln, spawn, system_time};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::UNIX_EPOCH;
use stock::Taken;

/// What every order needs.
struct Shop {
    stock_address: String,
    unpaid_ms: u64,
    desk: RefCell<Desk>,
    outbox: Outbox,
}

/// Why a request cannot be fulfilled: a code and words.
type Refusal = (u16, String);

#[derive(Deserialize)]
struct Place {
    item: String,
    quantity: u64,
}

#[derive(Deserialize)]
struct Named {
    order: String,
}

fn main() -> io::Result<()> {
    let mut arguments = args()?.into_iter().skip(1);
    let (Some(stock_address), Some(unpaid_ms)) = (arguments.next(), arguments.next()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "usage: orders HOST:PORT MILLISECONDS"));
    };
    let unpaid_ms = unpaid_ms.parse().map_err(io::Error::other)?;
    block_on(async {
        let (mut inbox, outbox) = capability::open()?;
        let life = system_time().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64);
        let shop = Rc::new(Shop { stock_address, unpaid_ms, desk: RefCell::new(Desk::new(life)), outbox });
        while let Some(message) = inbox.next().await? {
            let shop = Rc::clone(&shop);
            spawn(async move {
                shop.serve(&message).await;
                // What was said is written even while others wait.
                let _ = shop.outbox.flush().await;
            });
        }
        Ok(())
    })
}

impl Shop {
    async fn serve(&self, message: &Envelope) {
        let answer = match (message.kind(), message.type_name()) {
            (Kind::Command, "Order.Place") => self.place(message).await,
            (Kind::Command, "Order.Pay") => self.pay(message),
            (Kind::Command, "Order.Expire") => self.expire(message),
            (Kind::Query, "Order.List") => Ok(json!({ "orders": self.desk.borrow().list() })),
            // The timer says that it is set, and later how the expiry went.
            (Kind::Reply, _) => return,
            _ => {
                return eprintln!(
                    "orders: unexpected {} {}: {}",
                    message.kind(),
                    message.type_name(),
                    message.data()
                );
            }
        };
        match answer {
            Ok(data) => self.outbox.reply(message, Json::from(data)),
            Err((code, words)) => self.outbox.error(message, code, &words),
        }
    }

    async fn place(&self, message: &Envelope) -> Result<serde_json::Value, Refusal> {
        let Place { item, quantity } = read(message)?;
        let taken = stock::take(&self.stock_address, &item, quantity).await;
        let price_cents =
            match taken.map_err(|error| (502, format!("the stock cannot be reached: {error}")))? {
                Taken::For { price_cents } => price_cents,
                Taken::SoldOut { left } => return Err((409, format!("only {left} of {item} are left"))),
                Taken::Unknown => return Err((404, format!("there is no {item}"))),
            };
        let total_cents = price_cents.saturating_mul(quantity);
        let order = self.desk.borrow_mut().open(&item, quantity, total_cents);
        self.tell(message, "Order.Placed", &order);
        self.expire_later(message, &order);
        Ok(json!({ "order": order, "totalCents": total_cents }))
    }

    /// The loop keeps the time: it sends the command `Order.Expire` when the time has come, even if
    /// this guest was restarted meanwhile.
    fn expire_later(&self, cause: &Envelope, order: &str) {
        let expire = json!({ "kind": "command", "type": "Order.Expire", "data": { "order": order } });
        let schedule = Json::from(json!({ "delay": self.unpaid_ms, "message": expire }));
        self.outbox.send(&Draft::caused_by(cause, Kind::Command, "Timer.Schedule", schedule));
    }

    fn pay(&self, message: &Envelope) -> Result<serde_json::Value, Refusal> {
        let Named { order } = read(message)?;
        self.desk.borrow_mut().pay(&order).map_err(|words| (409, words))?;
        self.tell(message, "Order.Paid", &order);
        Ok(json!({ "paid": true }))
    }

    fn expire(&self, message: &Envelope) -> Result<serde_json::Value, Refusal> {
        let Named { order } = read(message)?;
        let expired = self.desk.borrow_mut().expire(&order);
        if expired {
            self.tell(message, "Order.Expired", &order);
        }
        Ok(json!({ "expired": expired }))
    }

    /// An event about an order.
    fn tell(&self, cause: &Envelope, type_name: &str, order: &str) {
        let data = self.desk.borrow().describe(order);
        self.outbox.event(cause, type_name, Json::from(data));
    }
}

fn read<T: DeserializeOwned>(message: &Envelope) -> Result<T, Refusal> {
    serde_json::from_str(message.data()).map_err(|error| (422, error.to_string()))
}
