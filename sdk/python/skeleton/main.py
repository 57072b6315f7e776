"""{{name}}: a capability of Mainspring.

When parameters, hints or docstrings change, write the manifest again:

    python3 -m mainspring manifest main:cap --out capability.json
"""

from typing import Annotated, TypedDict

from mainspring import Capability, CapabilityError, Field, SyncContext

cap = Capability("{{name}}", "Greets people by name, and remembers them.")

greeted: dict[str, int] = {}


class Greeting(TypedDict):
    text: str


class Count(TypedDict):
    name: str
    times: int


cap.event("{{Type}}.Greeted", Count, description="Somebody was greeted.")


@cap.command("{{Type}}.Greet")
def greet(name: Annotated[str, Field(min_length=1)], ctx: SyncContext) -> Greeting:
    """Greets somebody.

    Args:
        name: Whom to greet.
    """
    greeted[name] = greeted.get(name, 0) + 1
    ctx.emit("{{Type}}.Greeted", {"name": name, "times": greeted[name]})
    return {"text": f"Hello, {name}!"}


@cap.query("{{Type}}.Times")
def times(name: str) -> Count:
    """Tells how often somebody was greeted."""
    if name not in greeted:
        raise CapabilityError(404, f"{name} was never greeted")
    return {"name": name, "times": greeted[name]}


if __name__ == "__main__":
    cap.run()
