"""The register of facts that a model's own answers tell, once it serves: asking.py and proof_answers.py measure them.

(name, label, unit, meaning).
"""

from __future__ import annotations

ANSWERS = (
    ("answers.logprobs_finite", "log probabilities are numbers", "", "those of an answer are finite"),
    ("answers.chat_status", "status of a chat", "", "HTTP status of a short chat"),
    ("answers.no_chat_template", "chat wants a template", "", "a chat was refused because there is no chat template"),
    ("answers.path", "path that answers", "", "where a model answers that gives embeddings, scores or classes"),
    ("adapter.changes_output", "adapter changes the answer", "", "log probabilities differ with and without it"),
    (
        "files.chat_template",
        "chat template of the model",
        "",
        "given; none; lost: none, though the tokenizer has the special tokens of a chat",
    ),
    (
        "adapter.doubt",
        "doubt about the adapter",
        "",
        "zero: its B matrices are zero; names: none of its modules is the model's; shapes: they have another size",
    ),
)
