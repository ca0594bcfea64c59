"""A runtime's files against what its wheels say of them: every way in which they may differ, and nothing else."""

import hashlib
import os
from pathlib import Path

import pytest

from arcops.core.evidence.environment import ChangedFile, Departure, Distribution
from arcops.evidence.environment import distributions, trees
from arcops.evidence.environment.distributions import Found, found_in
from arcops.machine import wheels
from arcops.machine.hashes import Hashes
from tests.evidence.environment.runtime import CODE, LIBRARY, MadeUpRuntime, digest_of, hash_of

PATCHED = CODE + b"# a local patch\n"


@pytest.fixture
def runtime(tmp_path: Path) -> MadeUpRuntime:
    return MadeUpRuntime.at(tmp_path / "venv")


def read(runtime: MadeUpRuntime, *more: str, believe: bool = True) -> Found:
    hashes = Hashes(str(runtime.prefix.parent / "hashes"), believe=believe)
    return found_in((str(runtime.site), *more), str(runtime.prefix), hashes)


def named(found: Found, name: str) -> Distribution:
    return next(one for one in found.distributions if one.name == name)


def differing(found: Found) -> list[tuple[str, str]]:
    return [(file.path, file.departure.value) for one in found.distributions for file in one.files]


def test_wheels_as_they_were_built_differ_in_nothing(runtime: MadeUpRuntime) -> None:
    found = read(runtime)
    assert [(one.name, one.version, one.checked, one.files) for one in found.distributions] == [
        ("kernels", "0.1.14.1", True, ()),
        ("vllm", "0.29.0", True, ()),
    ]
    assert (found.loose, found.unread) == ([], [])


def test_a_patched_module_is_named_with_what_it_is_now(runtime: MadeUpRuntime) -> None:
    (runtime.site / "vllm/ops.py").write_bytes(PATCHED)
    expected = ChangedFile("vllm/ops.py", Departure.CHANGED, digest_of(PATCHED))
    assert named(read(runtime), "vllm").files == (expected,)


def test_a_replaced_binary_of_the_same_length_and_time_is_named(runtime: MadeUpRuntime) -> None:
    library = runtime.site / "kernels/_C.abi3.so"
    before = library.stat()
    read(runtime)
    library.write_bytes(LIBRARY.replace(b"made", b"evil"))
    os.utime(library, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert library.stat().st_mtime_ns == before.st_mtime_ns
    assert differing(read(runtime)) == [("kernels/_C.abi3.so", "changed")]


def test_a_missing_file_is_named(runtime: MadeUpRuntime) -> None:
    (runtime.site / "vllm/ops.py").unlink()
    assert named(read(runtime), "vllm").files == (ChangedFile("vllm/ops.py", Departure.MISSING, None),)


def test_what_cannot_be_read_is_neither_changed_nor_as_it_was(runtime: MadeUpRuntime) -> None:
    (runtime.site / "vllm/ops.py").unlink()
    os.mkfifo(runtime.site / "vllm/ops.py")
    (file,) = named(read(runtime), "vllm").files
    assert (file.departure, file.digest) == (Departure.UNREADABLE, None)
    assert file.detail


@pytest.mark.parametrize("path", ["vllm/extra.py", "vllm/deep/er/extra.py", "kernels/_D.so.2", "vllm/configs/B70.json"])
def test_code_that_no_record_names_is_named_with_the_package_that_it_lies_in(runtime: MadeUpRuntime, path: str) -> None:
    (runtime.site / path).parent.mkdir(parents=True, exist_ok=True)
    (runtime.site / path).write_bytes(CODE)
    owner = named(read(runtime), path.partition("/")[0])
    assert owner.files == (ChangedFile(path, Departure.ADDED, digest_of(CODE)),)


def test_compiled_modules_and_what_installers_write_are_no_additions(runtime: MadeUpRuntime) -> None:
    (runtime.site / "vllm/__pycache__/ops.cpython-312.pyc").write_bytes(b"newer")
    info = runtime.site / "vllm-0.29.0.dist-info"
    (info / "REQUESTED").touch()
    (info / "INSTALLER").write_text("uv\n")
    (info / "uv_cache.json").write_text("{}")
    (runtime.site / "vllm/README.md").write_text("words")
    assert differing(read(runtime)) == []


def test_a_command_whose_first_line_was_rewritten_is_as_it_was(runtime: MadeUpRuntime) -> None:
    (runtime.prefix / "bin" / "vllm-tool").write_text("#!/elsewhere/bin/python\nprint(1)\n")
    assert differing(read(runtime)) == []


def test_a_program_in_bin_that_is_no_script_is_checked(runtime: MadeUpRuntime) -> None:
    (runtime.prefix / "bin" / "vllm-tool").write_bytes(b"\x7fELF something else")
    assert differing(read(runtime)) == [("../../../bin/vllm-tool", "changed")]


def test_a_package_in_a_folder_shared_by_several_is_not_anybody_elses_addition(runtime: MadeUpRuntime) -> None:
    runtime.install("google-a", "1", {"google/a/__init__.py": CODE})
    runtime.install("google-b", "1", {"google/b/__init__.py": CODE})
    (runtime.site / "google/b/patch.py").write_bytes(CODE)
    found = read(runtime)
    assert differing(found) == [("google/b/patch.py", "added")]
    assert named(found, "google-b").files


def test_modules_at_the_top_that_belong_to_nothing_are_loose(runtime: MadeUpRuntime) -> None:
    (runtime.site / "sitecustomize.py").write_bytes(CODE)
    (runtime.site / "patch.pth").write_text("import sitecustomize\n")
    (runtime.site / "overlay").mkdir()
    (runtime.site / "overlay" / "vllm_patch.py").write_bytes(CODE)
    (runtime.site / "words").mkdir()
    (runtime.site / "words" / "README").write_text("words")
    assert [file.path for file in read(runtime).loose] == ["overlay/", "patch.pth", "sitecustomize.py"]


def test_a_linked_folder_within_a_package_is_an_addition_with_its_contents(runtime: MadeUpRuntime) -> None:
    elsewhere = runtime.prefix.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "patched.py").write_bytes(CODE)
    (runtime.site / "vllm" / "linked").symlink_to(elsewhere)
    before = read(runtime)
    assert differing(before) == [("vllm/linked/", "added")]
    (elsewhere / "patched.py").write_bytes(PATCHED)
    assert named(read(runtime), "vllm").files != named(before, "vllm").files


def test_metadata_that_no_installer_wrote_is_an_addition(runtime: MadeUpRuntime) -> None:
    alias = runtime.site / "vllm-0.29.0+cpu.dist-info"
    alias.mkdir()
    (alias / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.29.0+cpu\n")
    found = read(runtime)
    assert differing(found) == [("vllm-0.29.0+cpu.dist-info/METADATA", "added")]
    assert [one.checked for one in found.distributions if one.name == "vllm"] == [True, False]


def test_entry_points_that_somebody_added_are_named_since_plugins_are_found_by_them(runtime: MadeUpRuntime) -> None:
    (runtime.site / "kernels-0.1.14.1.dist-info/entry_points.txt").write_text("[vllm.general_plugins]\np = patch:go\n")
    assert differing(read(runtime)) == [("kernels-0.1.14.1.dist-info/entry_points.txt", "added")]


def test_two_builds_of_one_version_have_different_contents(runtime: MadeUpRuntime) -> None:
    before = named(read(runtime), "kernels").content_digest
    runtime.install("kernels", "0.1.14.1", {"kernels/__init__.py": CODE, "kernels/_C.abi3.so": LIBRARY * 2})
    found = named(read(runtime), "kernels")
    assert found.files == ()
    assert found.content_digest != before


def test_the_same_wheels_in_another_place_have_the_same_contents(runtime: MadeUpRuntime, tmp_path: Path) -> None:
    other = MadeUpRuntime.at(tmp_path / "elsewhere" / "venv")
    assert read(runtime).distributions == read(other).distributions


def test_an_editable_installation_is_not_checked_and_known_by_its_code(runtime: MadeUpRuntime, tmp_path: Path) -> None:
    source = tmp_path / "src tree"
    (source / "fork").mkdir(parents=True)
    (source / "fork" / "__init__.py").write_bytes(CODE)
    (source / "tests").mkdir()
    (source / "tests" / "test_it.py").write_bytes(CODE)
    (source / ".git" / "refs" / "heads").mkdir(parents=True)
    (source / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (source / ".git" / "refs/heads/main").write_text("a" * 40 + "\n")
    info = runtime.install("fork", "1", {"__editable__.fork.pth": str(source).encode()})
    url = f"file://{str(source).replace(' ', '%20')}"
    (info / "direct_url.json").write_text(f'{{"url": "{url}", "dir_info": {{"editable": true}}}}')
    (info / "top_level.txt").write_text("fork\n")
    before = named(read(runtime, str(source)), "fork")
    assert (before.checked, before.files) == (False, ())
    assert before.origin == f"{url} (editable), at {'a' * 40}"
    assert read(runtime, str(source)).loose == []
    (source / "tests" / "test_it.py").write_bytes(PATCHED)
    assert named(read(runtime), "fork").content_digest == before.content_digest
    (source / "fork" / "__init__.py").write_bytes(PATCHED)
    assert named(read(runtime), "fork").content_digest != before.content_digest


def test_an_egg_is_not_checked_and_known_by_its_code(runtime: MadeUpRuntime) -> None:
    info = runtime.site / "old-2.0-py3.11.egg-info"
    info.mkdir()
    (info / "PKG-INFO").write_text("Name: old\nVersion: 2.0\n")
    (info / "top_level.txt").write_text("old\nsingle\n")
    (runtime.site / "old").mkdir()
    (runtime.site / "old" / "__init__.py").write_bytes(CODE)
    (runtime.site / "single.py").write_bytes(CODE)
    found = read(runtime)
    before = named(found, "old")
    assert (before.version, before.checked, found.loose) == ("2.0", False, [])
    (runtime.site / "single.py").write_bytes(PATCHED)
    assert named(read(runtime), "old").content_digest != before.content_digest


def test_a_record_without_hashes_proves_nothing(runtime: MadeUpRuntime) -> None:
    runtime.install("bare", "1", {"bare/__init__.py": CODE}, hashed=False)
    assert named(read(runtime), "bare").checked is False


def test_a_broken_record_says_so_and_what_it_still_names_is_checked(runtime: MadeUpRuntime) -> None:
    record = runtime.site / "vllm-0.29.0.dist-info/RECORD"
    record.write_text(record.read_text() + 'vllm/x.py,sha256=!!!,3\n,,\nvllm/y.py,crc=aa,1\n"\n')
    (runtime.site / "vllm/ops.py").write_bytes(PATCHED)
    found = read(runtime)
    assert ("vllm/ops.py", "changed") in differing(found)
    assert any("RECORD of vllm" in sentence for sentence in found.unread)


def test_a_record_that_leads_out_of_the_runtime_is_not_followed(runtime: MadeUpRuntime, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("not to be touched")
    up = os.path.relpath(secret, runtime.site)
    record = runtime.site / "vllm-0.29.0.dist-info/RECORD"
    lines = "".join(
        f"{path},{hash_of(b'x')},1\n" for path in (up, "/etc/passwd", "../" * 40 + "etc/passwd", str(secret))
    )
    record.write_text(record.read_text() + lines)
    found = read(runtime)
    assert differing(found) == []
    (sentence,) = found.unread
    assert "names 4 files outside of the runtime" in sentence


def test_a_library_outside_of_site_packages_and_within_the_runtime_is_checked(runtime: MadeUpRuntime) -> None:
    runtime.install("sycl", "2025.2", {"../../libsycl.so.8": LIBRARY})
    assert differing(read(runtime)) == []
    (runtime.site.parents[0] / ".." / "libsycl.so.8").write_bytes(b"another")
    assert differing(read(runtime)) == [("../../libsycl.so.8", "changed")]


@pytest.mark.parametrize("algorithm", ["sha384", "sha512", "sha1", "md5"])
def test_other_hashes_than_sha256_are_understood(runtime: MadeUpRuntime, algorithm: str) -> None:
    info = runtime.install("other", "1", {"other/__init__.py": CODE})
    record = info / "RECORD"
    record.write_text(record.read_text().replace(hash_of(CODE), hash_of(CODE, algorithm)))
    assert algorithm in record.read_text()
    assert differing(read(runtime)) == []
    (runtime.site / "other/__init__.py").write_bytes(PATCHED)
    assert named(read(runtime), "other").files[0].digest == digest_of(PATCHED)


def test_more_than_anybody_reads_is_summed_up(runtime: MadeUpRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributions, "MOST_LISTED", 3)
    for number in range(5):
        (runtime.site / f"vllm/extra{number}.py").write_bytes(CODE)
    before = named(read(runtime), "vllm").files
    assert [file.path for file in before][3:] == ["(and 2 more)"]
    (runtime.site / "vllm/extra4.py").write_bytes(PATCHED)
    assert named(read(runtime), "vllm").files != before


def test_a_tree_without_end_is_unknown_and_said(runtime: MadeUpRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "MOST_FILES", 3)
    (runtime.site / "overlay").mkdir()
    for number in range(5):
        (runtime.site / f"overlay/extra{number}.py").write_bytes(CODE)
    found = read(runtime)
    assert found.loose == [ChangedFile("overlay/", Departure.ADDED, None)]
    assert any("more than 3 files" in sentence for sentence in found.unread)


def test_a_record_without_end_is_cut_and_said(runtime: MadeUpRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels, "MOST_FILES", 2)
    assert any("longer than any real one" in sentence for sentence in read(runtime).unread)


def test_a_ring_of_links_ends(runtime: MadeUpRuntime) -> None:
    (runtime.site / "ring").mkdir()
    (runtime.site / "ring" / "one.py").write_bytes(CODE)
    (runtime.site / "ring" / "again").symlink_to(runtime.site / "ring")
    (file,) = read(runtime).loose
    assert file.path == "ring/"


def test_nothing_is_read_twice_where_nothing_was_touched(
    runtime: MadeUpRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashes = Hashes(str(runtime.prefix.parent / "hashes"), clock=lambda: 4e9)
    found_in((str(runtime.site),), str(runtime.prefix), hashes)
    hashes.keep()
    monkeypatch.setattr(hashlib, "new", None)
    again = Hashes(hashes.path)
    found_in((str(runtime.site),), str(runtime.prefix), again)
    assert (again.counts.files, again.counts.read) == (hashes.counts.files, 0)


def test_a_folder_that_is_not_there_is_unknown(runtime: MadeUpRuntime, tmp_path: Path) -> None:
    found = read(runtime, str(tmp_path / "nowhere"))
    assert any("cannot be listed" in sentence for sentence in found.unread)
    assert len(found.distributions) == 2
