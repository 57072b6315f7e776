//! The orders of one life of the guest.

use serde_json::{Value, json};
use std::collections::BTreeMap;

/// How many orders are remembered; beyond that the oldest go.
const ORDERS_MAX: usize = 10_000;

/// The orders, by name.
pub(crate) struct Desk {
    /// Tells the orders of this life from those of an earlier one, whose timers may still run.
    life: u64,
    orders: BTreeMap<u64, Order>,
    last: u64,
}

struct Order {
    item: String,
    quantity: u64,
    total_cents: u64,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Paid,
    Expired,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Open => "open",
            State::Paid => "paid",
            State::Expired => "expired",
        }
    }
}

impl Desk {
    /// A desk without orders. No two lives have the same number.
    pub(crate) fn new(life: u64) -> Desk {
        Desk { life, orders: BTreeMap::new(), last: 0 }
    }

    fn name(&self, number: u64) -> String {
        format!("order-{}-{number}", self.life)
    }

    fn number(&self, order: &str) -> Option<u64> {
        order.strip_prefix(&format!("order-{}-", self.life))?.parse().ok()
    }

    /// Opens an order, and gives it a name.
    pub(crate) fn open(&mut self, item: &str, quantity: u64, total_cents: u64) -> String {
        self.last += 1;
        self.orders.insert(self.last, Order { item: item.into(), quantity, total_cents, state: State::Open });
        if self.orders.len() > ORDERS_MAX {
            self.orders.pop_first();
        }
        self.name(self.last)
    }

    /// Pays an order; why that cannot be, otherwise.
    pub(crate) fn pay(&mut self, order: &str) -> Result<(), String> {
        match self.number(order).and_then(|number| self.orders.get_mut(&number)) {
            None => Err(format!("there is no order {order}")),
            Some(found) if found.state != State::Open => Err(format!("{order} is {}", found.state.name())),
            Some(found) => {
                found.state = State::Paid;
                Ok(())
            }
        }
    }

    /// Ends an order that nobody paid; whether it did.
    pub(crate) fn expire(&mut self, order: &str) -> bool {
        let found = self.number(order).and_then(|number| self.orders.get_mut(&number));
        let Some(open) = found.filter(|order| order.state == State::Open) else { return false };
        open.state = State::Expired;
        true
    }

    pub(crate) fn describe(&self, order: &str) -> Value {
        let found = self.number(order).and_then(|number| Some((number, self.orders.get(&number)?)));
        found.map_or(Value::Null, |(number, order)| describe(&self.name(number), order))
    }

    pub(crate) fn list(&self) -> Vec<Value> {
        self.orders.iter().map(|(number, order)| describe(&self.name(*number), order)).collect()
    }
}

fn describe(name: &str, order: &Order) -> Value {
    json!({
        "order": name,
        "item": order.item,
        "quantity": order.quantity,
        "totalCents": order.total_cents,
        "state": order.state.name(),
    })
}
