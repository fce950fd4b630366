"""From vLLM's text to records with layer, stage and load attempt. Pure functions; the only files read are data/.

lines.py     read_line(text) -> Line: outer prefixes peeled (docker, compose, kubectl, journald), process tags, one format
layers.py    Layers.of_line(line, version) and layer_of_logger / _path / _frames / _process; data/modules.tsv,
             base_names.tsv (version + file + line), messages.tsv (the same base name told apart by its text)
stages.py    Wordings.marker_of(message) -> Marker (stage, role, then, facts), StageTracker; data/stages.tsv
tracebacks.py  exception chains in text, innermost first; covers.py which exceptions only say that another one happened
records.py   Reader(version=None).feed(line_no, text) -> [Record], .finish(): multi-line records joined per process
attempts.py  attempts(records) -> [Attempt]: model, pid, version, stages with intervals, facts, outcome, root exception
versions.py  releases, ranges (0.8.5..0.10.2), the version a message names, what silence of rank 1..n means
Precedence of a layer: module or logger, version + file + line, message, process, else unknown.
"""
