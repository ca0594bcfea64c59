"""What both sides ask: texts of made-up sentences, the same at every round."""

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from arcops.core.evidence.work import Item

_TEXT: Final = (
    "the server card memory token cache draft model answer request batch prompt driver kernel queue step loop signal "
    "file lock port process worker engine client stream starts stops waits reads writes holds frees counts is has and "
    "or when before after while with without under over slow fast green red free busy ready long short first last"
)
_WORDS: Final = _TEXT.split()


@dataclass(frozen=True, slots=True)
class Work:
    """So many prompts of one length, with answers of one length."""

    prompts: tuple[str, ...]
    output: int
    """Tokens of each answer."""

    def items(self, salt: str) -> tuple[Item, ...]:
        """For arcops; what was not asked with the same salt is not in the server's prefix cache."""
        return tuple(
            Item(f"p{number}", "words", prompt, self.output, to_the_end=True, cache_salt=salt)
            for number, prompt in enumerate(self.prompts)
        )

    def write(self, path: Path) -> None:
        """For `vllm bench serve --dataset-name custom`."""
        rows = ({"prompt": prompt, "output_tokens": self.output} for prompt in self.prompts)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def make(count: int, words: int, output: int, seed: int = 1) -> Work:
    """`count` prompts of so many words, no two alike."""
    chosen = random.Random(seed)  # noqa: S311 - words, no secrets
    prompts = tuple(" ".join(chosen.choices(_WORDS, k=words)) for _ in range(count))
    return Work(prompts, output)
