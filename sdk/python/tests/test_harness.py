"""The test harness, and through it what handlers may do."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from typing import Any

import pytest

from mainspring import (
    Capability,
    CapabilityError,
    Context,
    InvalidMessage,
    RequestError,
    RoutingError,
    SchemaError,
    SyncContext,
)
from mainspring.testing import AsyncHarness, BrokenRule, Harness


def shop(is_async: bool) -> Capability:
    """The same capability with plain functions and with coroutines."""
    cap = Capability("shop", "Sells things.", asks={"Stock.Reserve": "command", "Stock.Get": "query"}, cancel=True)
    cap.event("Shop.Sold", dict[str, str])
    seen: list[Any] = []
    cap.seen = seen  # type: ignore[attr-defined]

    if is_async:

        @cap.command("Shop.Sell")
        async def sell(what: str, ctx: Context) -> dict[str, int]:
            left = await ctx.ask("Stock.Reserve", {"what": what})
            await ctx.emit("Shop.Sold", {"what": what})
            await ctx.progress({"done": 1})
            return {"left": left}

        @cap.on("Stock.Empty")
        async def empty(what: str) -> None:
            seen.append(what)

    else:

        @cap.command("Shop.Sell")
        def sell_plainly(what: str, ctx: SyncContext) -> dict[str, int]:
            left = ctx.ask("Stock.Reserve", {"what": what})
            ctx.emit("Shop.Sold", {"what": what})
            ctx.progress({"done": 1})
            return {"left": left}

        @cap.on("Stock.Empty")
        def empty_plainly(what: str) -> None:
            seen.append(what)

    @cap.query("Shop.Fail")
    def fail(code: int) -> None:
        if code == 1:
            raise ValueError("a secret")
        raise CapabilityError(code, "it fails", why="because")

    @cap.query("Shop.Lie")
    def lie() -> dict[str, int]:
        return {"a": "not a number"}  # type: ignore[dict-item]

    @cap.query("Shop.Whisper")
    async def whisper(ctx: Context) -> None:
        await ctx.emit("Shop.Unknown")

    if not is_async:
        del cap.requests["query", "Shop.Whisper"]
    return cap


@pytest.fixture(params=[False, True], ids=["plain", "asyncio"])
def cap(request: pytest.FixtureRequest) -> Capability:
    return shop(request.param)


def test_a_handler_asks_tells_and_answers(cap: Capability) -> None:
    progress: list[Any] = []
    with Harness(cap) as loop:
        loop.answers["Stock.Reserve"] = lambda data: {"pen": 3}[data["what"]]
        assert loop.send("Shop.Sell", {"what": "pen"}, on_progress=progress.append) == {"left": 3}
        assert [(event.type, event.data) for event in loop.events][0] == ("Shop.Sold", {"what": "pen"})
    assert progress == [{"done": 1}]


def test_data_is_held_to_the_schema_before_any_handler_runs(cap: Capability) -> None:
    with Harness(cap) as loop:
        with pytest.raises(SchemaError, match="data: 'what' is missing"):
            loop.send("Shop.Sell", {})
        with pytest.raises(SchemaError, match="data/what: 3 is not of type string"):
            loop.send("Shop.Sell", {"what": 3})
        with pytest.raises(RoutingError):
            loop.query("Shop.Sell", {"what": "pen"})


def test_an_answer_that_nobody_set_is_404_and_a_handler_that_lets_it_through_says_whom_it_asked(
    cap: Capability,
) -> None:
    with Harness(cap) as loop, pytest.raises(CapabilityError, match="asking Stock.Reserve failed") as caught:
        loop.send("Shop.Sell", {"what": "pen"})
    assert caught.value.code == 404 and caught.value.data["cause"]["code"] == 404


def test_an_error_of_ones_own_has_its_code_and_members(cap: Capability) -> None:
    with Harness(cap) as loop:
        with pytest.raises(CapabilityError) as caught:
            loop.query("Shop.Fail", {"code": 409})
        assert (caught.value.code, caught.value.message, caught.value.data["why"]) == (409, "it fails", "because")
        with pytest.raises(CapabilityError) as caught:
            loop.query("Shop.Fail", {"code": 200})
        assert caught.value.code == 500


def test_an_unexpected_exception_is_500_and_keeps_its_words(
    cap: Capability, capsys: pytest.CaptureFixture[str]
) -> None:
    with Harness(cap) as loop, pytest.raises(CapabilityError) as caught:
        loop.query("Shop.Fail", {"code": 1})
    assert caught.value.code == 500 and "secret" not in caught.value.message
    assert "ValueError: a secret" in capsys.readouterr().err


def test_a_reply_that_breaks_the_outbound_schema_is_told(cap: Capability) -> None:
    with Harness(cap) as loop, pytest.raises(BrokenRule, match="breaks the outbound schema: data/a"):
        loop.query("Shop.Lie", {})


def test_a_second_answer_and_a_made_up_cause_are_broken_rules() -> None:
    from mainspring.testing import _Loop

    loop = _Loop(shop(False))
    id, _, outcome = loop.give("command", "Shop.Sell", {"what": "pen"})
    reply = {"kind": "reply", "type": "Shop.Sell", "data": {"left": 1}}
    line = json.dumps({**reply, "metadata": {"id": "a", "timestamp": 0, "causation": id}}).encode()
    loop.take(line)
    assert outcome == [({"left": 1},)]
    with pytest.raises(BrokenRule, match="answered already"):
        loop.take(line)
    with pytest.raises(BrokenRule, match="never given"):
        loop.take(json.dumps({**reply, "metadata": {"id": "a", "timestamp": 0, "causation": "x"}}).encode())
    with pytest.raises(BrokenRule, match="names no cause"):
        loop.take(json.dumps({**reply, "metadata": {"id": "a", "timestamp": 0}}).encode())


def test_an_event_that_is_not_declared_is_refused_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    with Harness(shop(True)) as loop, pytest.raises(CapabilityError, match="capability.event"):
        loop.query("Shop.Whisper", {})


def test_events_are_handled(cap: Capability) -> None:
    with Harness(cap) as loop:
        loop.emit("Stock.Empty", {"what": "pen"})
    assert cap.seen == ["pen"]  # type: ignore[attr-defined]


def test_a_cancelled_request_cancels_its_handler() -> None:
    cap = Capability("slow", "Takes its time.", cancel=True, concurrency=4)
    ends: list[str] = []

    @cap.command("Slow.Wait")
    async def wait() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ends.append("coroutine")
            raise

    @cap.command("Slow.Sleep")
    def sleep(ctx: SyncContext) -> None:
        with contextlib.suppress(RequestError):
            ctx.sleep(60)
        ends.append("thread")
        assert threading.current_thread() is not threading.main_thread()

    async def main() -> None:
        async with AsyncHarness(cap) as loop:
            for name in ("Slow.Wait", "Slow.Sleep"):
                task = asyncio.ensure_future(loop.send(name, {}))
                await asyncio.sleep(0.05)
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    asyncio.run(main())
    assert ends == ["coroutine", "thread"]


def test_requests_run_at_the_same_time_and_events_one_after_the_other() -> None:
    cap = Capability("many", "Does many things.", concurrency=8)
    together = asyncio.Event()
    waiting: list[int] = []
    order: list[str] = []

    @cap.query("Many.Meet")
    async def meet() -> int:
        waiting.append(1)
        if len(waiting) == 3:
            together.set()
        await together.wait()
        return len(waiting)

    @cap.on("Many.Told")
    async def told(data: str) -> None:
        await asyncio.sleep(0.01 if data == "first" else 0)
        order.append(data)

    async def main() -> list[int]:
        async with AsyncHarness(cap) as loop:
            found = await asyncio.gather(*(loop.query("Many.Meet") for _ in range(3)))
            await asyncio.gather(loop.emit("Many.Told", "first"), loop.emit("Many.Told", "second"))
            return list(found)

    assert asyncio.run(main()) == [3, 3, 3]
    assert order == ["first", "second"]


def test_a_background_task_speaks_by_itself() -> None:
    cap = Capability("clock", "Ticks.", uncaused=True)
    cap.event("Clock.Ticked", int)

    @cap.background
    async def tick(ctx: Context) -> None:
        for number in range(3):
            await ctx.emit("Clock.Ticked", number)

    @cap.query("Clock.Ask")
    async def ask() -> int:
        return 1

    with Harness(cap) as loop:
        assert loop.query("Clock.Ask") == 1
        assert [event.data for event in loop.events] == [0, 1, 2]


def test_what_cannot_be_written_ends_the_request_alone() -> None:
    cap = Capability("odd", "Returns odd things.")

    @cap.query("Odd.Get")
    def get(what: str) -> Any:
        return {"nan": float("nan"), "object": object(), "long": "x" * (1 << 20), "fine": 1}[what]

    with Harness(cap) as loop:
        for what in ("nan", "object", "long"):
            with pytest.raises(CapabilityError, match="cannot be written") as caught:
                loop.query("Odd.Get", {"what": what})
            assert caught.value.code == 500
        assert loop.query("Odd.Get", {"what": "fine"}) == 1
        with pytest.raises(InvalidMessage):
            loop.query("Odd.Get", {"what": float("inf")})
