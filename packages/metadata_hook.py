"""What the metadata of a build say of the repository: its address, and README's links into it.

An index shows README without the files that its links name.  Where ``NIMO_REPOSITORY`` has the
address of the repository, as https://github.com/OWNER/NAME, links and pictures are those of the
release's tag there, and the metadata have its address.  Without it they stay as they are.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

#: A link or a picture that is not an address: what is before it, and the path.
_RELATIVE = re.compile(r"(!?)(\[[^\]]*\])\((?!\w+:|#)([^)]+)\)")


class MetadataHook(MetadataHookInterface):
    """Give hatchling README and addresses."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add ``readme`` and ``urls``, which pyproject.toml calls dynamic."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        repository = os.environ.get("NIMO_REPOSITORY", "").rstrip("/")
        if repository:
            text = absolute(text, repository, f"v{metadata['version']}")
            metadata["urls"] = {
                "Homepage": repository,
                "Documentation": f"{repository}/blob/v{metadata['version']}/docs/index.md",
                "Changelog": f"{repository}/blob/v{metadata['version']}/CHANGELOG.md",
                "Issues": f"{repository}/issues",
            }
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def absolute(text: str, repository: str, tag: str) -> str:
    """Markdown whose links into the repository are addresses.

    >>> absolute("[a](docs/a.md#b), ![c](d.png), [e](https://e.org)", "https://h.org/o/n", "v1")
    '[a](https://h.org/o/n/blob/v1/docs/a.md#b), ![c](https://h.org/o/n/raw/v1/d.png), [e](https://e.org)'
    """

    def address(link: re.Match[str]) -> str:
        picture, title, path = link.groups()
        kind = "raw" if picture else "blob"
        return f"{picture}{title}({repository}/{kind}/{tag}/{path})"

    return _RELATIVE.sub(address, text)
