"""The command behind ``make docs``: writes every page."""

from __future__ import annotations

from tools.reference.pages import DOCS, pages


def main() -> None:
    """Write every page."""
    (DOCS / "reference").mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (DOCS / name).write_text(text, encoding="utf-8")
        print(f"docs/{name}")


if __name__ == "__main__":
    main()
