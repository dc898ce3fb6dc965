"""Messages as earlier releases sent them: what this one has to understand and be understood by."""

import json
from pathlib import Path
from typing import Any

#: The last release and this one; one file each, kept as it was recorded.
RELEASES = sorted(Path(__file__).parent.glob("data/messages-*.json"))

Message = dict[str, Any]


def recorded(path: Path) -> Message:
    """Read what a release sent: asks, answers by what was asked, prefixes of comments."""
    read: Message = json.loads(path.read_text())
    return read


def with_news(message: Any) -> Any:
    """Give a message as a later release may send it: with fields that nobody knows yet."""
    if isinstance(message, list):
        return [with_news(each) for each in message]
    if not isinstance(message, dict):
        return message
    reported = {
        key: value if key == "options" else with_news(value) for key, value in message.items()
    }
    return {**reported, "of_a_later_release": {"and": ["more"]}}
