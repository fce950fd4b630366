"""What lies in a model's or an adapter's folder, and what is wrong with it, without torch and without loading.

headers.py    the header of a safetensors file: names, types, shapes, where the bytes are
audit.py      every file: truncated, a git-lfs pointer, a web page, named by the index and not there
shapes.py     tensors against config.json
wanted.py     the tensors that the model's class wants
finite.py     a sample of the numbers: NaN and infinity
adapters.py   LoRA adapters
"""
