"""Changes outside the deployment file: files of a model, packages of an engine.

keys.py            what a fix may name: `files.NAME`, `engine.packages.NAME`, and the values that they take
look.py            a file as it is in a few words; whether a file is whole
whole_copies.py    where a whole copy of a file is
model_folder.py    the folder of a launch's model, also in the hub's cache
file_change.py     one file takes another's place or is moved away, and goes back
hub.py             a file from the hub, by the engine's own huggingface_hub
package_change.py  one package of an engine, and back
engine_script.py   what of it runs on the engine's Python
running.py         a command that may take long and can be stopped
work.py            how long work is stopped, and what it tells meanwhile
"""
