import pytest

from harness.lab import compose
from harness.lab.log_storage import Flushing, LogStorage

MOUNTS = "overlay / overlay rw 0 0\n/dev/sda /var/opt ext4 ro 0 0\n/dev/sdb /var/opt xfs rw 0 0\n/dev/sdc /var/op btrfs rw 0 0\n"


@pytest.mark.parametrize(
    "answer, flushing",
    [
        (f"/var/opt/mssql\n{MOUNTS}", Flushing(None, None, "xfs", "rw")),
        (f"/var/optional\n{MOUNTS}writethrough=0\n", Flushing(0, None, "overlay", "rw")),
        (f"log\n{MOUNTS}", None),
        ("", None),
    ],
)
def test_the_mount_of_the_log_is_the_nearest_above_its_folder(
    monkeypatch: pytest.MonkeyPatch, answer: str, flushing: Flushing | None
) -> None:
    monkeypatch.setattr(compose, "run_in", lambda *_: answer)
    assert LogStorage("target", (6, 1)).flushing == flushing
