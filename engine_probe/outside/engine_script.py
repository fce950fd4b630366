"""What runs on the engine's Python to change one of its packages: standard library and pip only, Python 3.9."""

from __future__ import annotations

WATCH = """
import os, signal, sys, threading
def _watch():
    while os.read(0, 4096):
        pass
    os.killpg(0, signal.SIGKILL) if os.getpgid(0) == os.getpid() else os._exit(1)
threading.Thread(target=_watch, daemon=True).start()
"""
"""What it does ends with the console that asked for it, however that ends: its standard input closes then."""

PIP = (
    WATCH
    + """
import runpy
sys.argv = ["pip", *sys.argv[1:]]
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""
)

_COMMON = """
import importlib.metadata as metadata, importlib.util, json, os, re, shutil, sys, tarfile, tempfile
PREFIX = os.path.realpath(sys.prefix)

def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()

def named(names):
    return [d for d in metadata.distributions() if d.metadata["Name"] and plain(d.metadata["Name"]) in names]

def versions():
    return {plain(d.metadata["Name"]): d.version for d in metadata.distributions() if d.metadata["Name"]}

def answer(**what):
    print("vllm_console_answer " + json.dumps(what))
    sys.exit(0)

def is_inside(path):
    folder = os.path.realpath(os.path.dirname(path))
    return folder == PREFIX or folder.startswith(PREFIX + os.sep)

def paths_of(dist):
    if dist.files is None:
        return None
    return [os.path.abspath(str(dist.locate_file(one))) for one in dist.files]

def sites():
    return sorted({os.path.abspath(str(d.locate_file(""))) for d in metadata.distributions()})

def half_removed():
    return sorted(
        os.path.join(site, one) for site in sites() if os.path.isdir(site) for one in os.listdir(site) if one[:1] == "~"
    )
"""

KEEP = (
    _COMMON
    + """
names, kept = set(sys.argv[2:]), sys.argv[1]
if importlib.util.find_spec("pip") is None:
    answer(error="no-pip", python=sys.executable)
before = versions()
files = []
for dist in named(names):
    paths = paths_of(dist)
    title = dist.metadata["Name"] + " " + dist.version
    if paths is None:
        answer(error=title + " has no list of its files, so it could not be brought back")
    away = next((one for one in paths if not is_inside(one)), None)
    if away is not None:
        answer(error=title + " does not lie in this environment (" + os.path.realpath(os.path.dirname(away)) + ")")
    files += [one for one in paths if os.path.lexists(one) and not os.path.isdir(one)]
folder = os.path.join(sys.prefix, ".vllm-console")
archive = os.path.join(folder, kept + ".tar")
need = sum(os.lstat(one).st_size for one in files)
free = shutil.disk_usage(sys.prefix).free
if free < need + (64 << 20):
    answer(error="there is no room to keep what is installed: %.2f GiB are needed" % (need / 2**30))
if not os.access(sys.prefix, os.W_OK):
    answer(error=sys.prefix + " cannot be written by this user")
if files:
    os.makedirs(folder, exist_ok=True)
    with open(archive + ".new", "wb") as out:
        with tarfile.open(fileobj=out, mode="w") as tar:
            for one in sorted(set(files)):
                tar.add(one, os.path.relpath(one, sys.prefix), recursive=False)
        out.flush()
        os.fsync(out.fileno())
    os.replace(archive + ".new", archive)
answer(versions=before, archive=archive if files else None, half=half_removed())
"""
)

VERSIONS = (
    _COMMON
    + """
answer(versions=versions())
"""
)

RESTORE = (
    _COMMON
    + """
given = json.loads(sys.argv[1])
SITES = sites()
before, archive = given["versions"], given["archive"]
if archive and not os.path.exists(archive):
    if versions() == before:
        answer(left={})
    answer(error=archive + " is gone: what was installed cannot be put back")
gone = set(given["names"]) | {name for name in versions() if name not in before}
for _ in range(3):
    for dist in named(gone):
        folder = os.path.abspath(str(getattr(dist, "_path", "")))
        for one in paths_of(dist) or ():
            if is_inside(one) and os.path.lexists(one) and not os.path.isdir(one):
                os.remove(one)
                parent = os.path.dirname(one)
                while parent not in SITES and is_inside(parent) and parent != PREFIX:
                    left = os.listdir(parent)
                    if left == ["__pycache__"]:
                        shutil.rmtree(os.path.join(parent, "__pycache__"), ignore_errors=True)
                    elif left:
                        break
                    os.rmdir(parent)
                    parent = os.path.dirname(parent)
        if folder.endswith((".dist-info", ".egg-info")) and is_inside(folder) and os.path.isdir(folder):
            shutil.rmtree(folder)
if archive:
    with tarfile.open(archive) as tar:
        for member in tar:
            place = os.path.join(sys.prefix, member.name)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            if not is_inside(place):
                answer(error=place + " does not lie in this environment any more")
            if os.path.lexists(place):
                os.remove(place)
            how = {"filter": "fully_trusted"} if hasattr(tarfile, "fully_trusted_filter") else {}
            tar.extract(member, sys.prefix, **how)
for one in set(half_removed()) - set(given["half"]):
    shutil.rmtree(one, ignore_errors=True) if os.path.isdir(one) else os.remove(one)
importlib.invalidate_caches()
now = versions()
left = {name: now.get(name) for name in {*before, *now} if before.get(name) != now.get(name)}
if not left and archive:
    os.remove(archive)
    folder = os.path.dirname(archive)
    os.rmdir(folder) if not os.listdir(folder) else None
answer(left=left)
"""
)
