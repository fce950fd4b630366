"""From vLLM's text to records with layer, stage and load attempt. Pure functions; the only files read are data/.

lines.py       read_line(text) -> Line: what containers and journals put in front peeled, process tags, one shape
               (shapes.py and data/formats.tsv; json_lines.py)
layers.py      layer_of_record / _logger / _path / _file / _frames / _process; data/modules.tsv,
               base_names.tsv (release + file + line), messages.tsv (the same base name told apart by its text)
stages.py      Wordings.marker_of(message) -> Marker (stage, role, facts); markers.py and data/stages.tsv;
               stage_tracker.py follows a load that goes on;
               frames.py and data/functions.tsv: the stage of a traceback
tracebacks.py  exception chains in text, innermost first; covers.py: which only say that another one happened
records.py     Reader(version=None).feed(line_no, text) -> [Record], .finish(); joining.py, owners.py, progress.py help
attempts.py    attempts(records) -> [Attempt]: model, pid, version, stages with seconds, facts, outcome, root exception
               (grouping.py, endings.py, clock.py)
versions.py    releases and ranges such as 0.8.5..0.10.2
index*.py      the same answers for logs of any size, without records; follow.py, sources.py: where bytes come from
merged*.py     several logs as one, in the order of their times; spool.py, spooled.py: pipes kept in a file
A layer is told by module or logger, else release + file + line, message, process, in that order; else unknown.
"""
