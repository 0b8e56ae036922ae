"""The word lists that some games read through nltk, made from the package `english-words`, without a download."""

import os
import tempfile
from functools import cache
from pathlib import Path

import nltk
from english_words import get_english_words_set

_LONGEST_BASIC = 7


def provide_words() -> None:
    """Write the word lists to the user's cache, once, and let nltk find them there.

    nltk's tagger is not part of any package: every word counts as a noun. A download is never tried.
    """
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "openenv" / "nltk_data"
    words = folder / "corpora" / "words"
    if not (words / "en-basic").is_file():
        words.mkdir(parents=True, exist_ok=True)
        known = get_english_words_set(["web2"])
        common = known & get_english_words_set(["gcide"])
        basic = [word for word in common if word.isalpha() and word.islower() and 3 <= len(word) <= _LONGEST_BASIC]
        for name, listed in (("README", set()), ("en", known), ("en-basic", set(basic))):
            _write(words / name, "\n".join(sorted(listed)))
    nltk.data.path.insert(0, str(folder))
    nltk.download = lambda *_, **__: True
    nltk.pos_tag = lambda tokens, **_: [(token, "NN") for token in tokens]
    from textarena.envs.utils import word_lists  # reads the word lists

    word_lists.EnglishDictionary = cache(word_lists.EnglishDictionary)  # it takes seconds to make, and never changes


def _write(path: Path, text: str) -> None:
    """Write a file at once: another process may read it."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as part:
        part.write(text)
    Path(part.name).replace(path)
