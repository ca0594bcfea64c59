"""A made-up runtime: a virtual environment with the packages that a test wants, as an installer leaves them."""

import base64
import hashlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from arcops.core.launch import Launch

CODE = b"def answer():\n    return 42\n"
LIBRARY = b"\x7fELF made up\0" * 100


@dataclass(frozen=True, slots=True)
class MadeUpRuntime:
    """A folder that looks like a virtual environment, with this test's own interpreter."""

    prefix: Path

    @property
    def site(self) -> Path:
        return self.prefix / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"

    @property
    def vllm(self) -> Path:
        return self.prefix / "bin" / "vllm"

    @classmethod
    def at(cls, prefix: Path) -> "MadeUpRuntime":
        """With a `vllm` that starts Python, and two wheels as they were built."""
        made = cls(prefix)
        made.site.mkdir(parents=True)
        (prefix / "bin").mkdir()
        (prefix / "pyvenv.cfg").write_text("home = /nowhere\ninclude-system-site-packages = false\nversion = 3.9.1\n")
        (prefix / "bin" / "python").symlink_to(os.path.realpath(sys.executable))
        made.vllm.write_text(f"#!{prefix}/bin/python\nfrom vllm import main\nmain()\n")
        made.vllm.chmod(0o755)
        made.install("vllm", "0.29.0", {"vllm/__init__.py": CODE, "vllm/ops.py": CODE + b"# ops\n"})
        made.install("kernels", "0.1.14.1", {"kernels/__init__.py": CODE, "kernels/_C.abi3.so": LIBRARY})
        return made

    def install(self, name: str, version: str, files: dict[str, bytes], *, hashed: bool = True) -> Path:
        """A wheel as pip leaves it: its files, a command in bin, compiled modules, metadata and RECORD."""
        info = f"{name}-{version}.dist-info"
        every = {
            **files,
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nWords\n".encode(),
            f"{info}/INSTALLER": b"pip\n",
            f"../../../bin/{name}-tool": f"#!{self.prefix}/bin/python\nprint(1)\n".encode(),
        }
        lines: list[str] = []
        for path, content in every.items():
            place = Path(os.path.normpath(self.site / path))
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
            lines.append(f"{path},{hash_of(content)},{len(content)}" if hashed else f"{path},,")
        for path in files:
            if path.endswith(".py"):
                folder, _, module = path.rpartition("/")
                compiled = f"{folder}/__pycache__/{module.removesuffix('.py')}.cpython-311.pyc"
                (self.site / compiled).parent.mkdir(parents=True, exist_ok=True)
                (self.site / compiled).write_bytes(b"compiled")
                lines.append(f"{compiled},,")
        (self.site / info / "RECORD").write_text("\n".join([*lines, f"{info}/RECORD,,"]) + "\n")
        return self.site / info

    def launch(self, model: Path, *more: str, environment: dict[str, str] | None = None) -> Launch:
        """What would start it."""
        argv = (str(self.vllm), "serve", str(model), "--host", "127.0.0.1", "--port", "8000", *more)
        return Launch(
            profile="mine",
            argv=argv,
            environment=tuple(sorted((environment or {}).items())),
            setup=None,
            host="127.0.0.1",
            port=8000,
            served_name="mine",
            api_key_file=None,
            locks=(),
            cards=(),
        )


def hash_of(content: bytes, algorithm: str = "sha256") -> str:
    """As RECORD writes it: urlsafe base64 without padding."""
    digest = hashlib.new(algorithm, content).digest()
    return f"{algorithm}={base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
