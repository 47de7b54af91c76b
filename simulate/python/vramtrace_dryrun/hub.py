"""Models of the Hugging Face hub without their weights. Of a .safetensors file only the header is fetched; the rest is a hole, which reads
as zeros and takes no disk. Such files lie in a cache of the dry run's own, never in the user's, whose files it shows as links."""
import os
import pathlib
import struct

from . import say

FOLDER = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "vramtrace" / "dryrun" / "hub"
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".gguf")
LARGE = 16 << 20  # bytes


def show(own):
    """Links to what the user's cache has, so that it is found in ours and nothing is ever written to it."""
    for path in own.glob("*--*/**/*"):
        link = FOLDER / path.relative_to(own)
        if path.is_dir() and not path.is_symlink():
            link.mkdir(parents=True, exist_ok=True)
        elif not link.exists():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.unlink(missing_ok=True)
            if path.parent.name == "refs" or "refs" in path.relative_to(own).parts:
                link.write_bytes(path.read_bytes())
            else:
                link.symlink_to(path.resolve())


def install_constants(constants):
    own = pathlib.Path(constants.HF_HUB_CACHE)
    FOLDER.mkdir(parents=True, exist_ok=True)
    if own != FOLDER and own.is_dir():
        show(own)
    constants.HF_HUB_CACHE = constants.HUGGINGFACE_HUB_CACHE = str(FOLDER)
    constants.HF_HUB_DISABLE_XET = True


def fetch(session, url, headers, first, last):
    response = session.get(url, headers={**(headers or {}), "Range": f"bytes={first}-{last}", "Accept-Encoding": "identity"})
    response.raise_for_status()
    if response.status_code != 206:
        raise OSError(f"{url}: the server sends no part of a file")
    return response.content


def install(file_download):
    if file_download.__name__.endswith("constants"):
        return install_constants(file_download)
    whole = file_download.http_get

    def http_get(url, temp_file, *args, headers=None, expected_size=None, **kwargs):
        name = url.partition("?")[0]
        in_ours = FOLDER in pathlib.Path(temp_file.name).parents
        if name.endswith(PICKLES) and (expected_size or 0) > LARGE:
            raise OSError(f"vramtrace dryrun: {name} ({expected_size / 1e9:.1f} GB) is not fetched, and has no header: "
                          "--random-weights loads the model from its configuration")
        if not name.endswith(".safetensors") or not expected_size or expected_size < LARGE or not in_ours:
            if (expected_size or 0) > LARGE:
                say(f"fetching {name} ({expected_size / 1e9:.1f} GB)")
            return whole(url, temp_file, *args, headers=headers, expected_size=expected_size, **kwargs)
        from huggingface_hub.utils import get_session
        session = get_session()
        length = fetch(session, url, headers, 0, 7)
        header = fetch(session, url, headers, 8, 7 + struct.unpack("<Q", length)[0])
        temp_file.write(length + header)
        temp_file.truncate(expected_size)
        return None

    file_download.http_get = http_get
