"""Keeps notes: Python, with the SDK."""

from typing import Annotated, TypedDict

from mainspring import Capability, CapabilityError, Field, SyncContext

cap = Capability("notes", "Keeps notes, and finds them again.")
notes: dict[int, str] = {}


class Note(TypedDict):
    number: int
    text: str


class Found(TypedDict):
    notes: list[Note]


cap.event("Notes.Added", Note, description="A note was added.")


@cap.command("Notes.Add", destructive=False)
def add(text: Annotated[str, Field(min_length=1, max_length=2000)], ctx: SyncContext) -> Note:
    """Keeps a note.

    Args:
        text: What to remember.
    """
    number = max(notes, default=0) + 1
    notes[number] = text
    ctx.emit("Notes.Added", {"number": number, "text": text})
    return {"number": number, "text": text}


@cap.query("Notes.Find")
def find(words: str = "") -> Found:
    """Finds the notes that contain some words, or lists all of them.

    Args:
        words: What a note must contain, whatever its case.
    """
    found = [(number, text) for number, text in notes.items() if words.lower() in text.lower()]
    return {"notes": [{"number": number, "text": text} for number, text in found]}


@cap.command("Notes.Drop")
def drop(number: int) -> Note:
    """Forgets a note."""
    if number not in notes:
        raise CapabilityError(404, f"there is no note {number}")
    return {"number": number, "text": notes.pop(number)}


if __name__ == "__main__":
    cap.run()
