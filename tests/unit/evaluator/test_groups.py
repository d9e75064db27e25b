import pytest
from adaexplore_evaluator import groups
from adaexplore_evaluator.groups import TaskGroup, TaskGroups

V1 = "39 31 0:36 {root} {place} rw,relatime - cgroup cgroup rw,pids\n"
V2 = "41 31 0:38 {root} {place} rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"


@pytest.fixture
def host(tmp_path, monkeypatch):
    """Write what the kernel says of the mounts and of this process's groups; returns where the hierarchy is mounted."""
    place = tmp_path / "hierarchy"
    place.mkdir()
    monkeypatch.setattr(groups, "_SELF", tmp_path)

    def write(mounts, memberships, root="/"):
        (tmp_path / "mountinfo").write_text(mounts.format(root=root, place=place))
        (tmp_path / "cgroup").write_text(memberships)
        return place

    return write


def own_groups():
    return list(groups._own_groups())


def test_the_own_group_of_version_1_is_found_by_its_controller(host):
    place = host(V1, "8:pids:/service\n1:cpu,cpuacct:/other\n0::/\n")
    assert own_groups() == [place / "service"]


def test_a_mount_that_shows_a_part_of_the_hierarchy_is_read_from_there(host):
    place = host(V1, "8:pids:/docker/abc/x\n", "/docker/abc")
    assert own_groups() == [place / "x"]


def test_a_group_outside_what_is_mounted_is_none_of_ours(host):
    host(V1, "8:pids:/elsewhere\n", "/docker/abc")
    assert own_groups() == []


@pytest.mark.parametrize(("controllers", "found"), [("cpu pids", ["service"]), ("hugetlb", [])])
def test_the_own_group_of_version_2_counts_where_it_has_the_controller(host, controllers, found):
    place = host(V2, "0::/service\n")
    (place / "service").mkdir()
    (place / "service" / "cgroup.controllers").write_text(controllers)
    assert [path.name for path in own_groups()] == found


def test_a_process_in_no_known_hierarchy_has_no_groups(host):
    host("31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n", "1:cpu:/\n")
    assert own_groups() == []


def test_the_controller_is_passed_on_once(tmp_path):
    control = tmp_path / "cgroup.subtree_control"
    control.write_text("cpu")
    groups._delegate(tmp_path)
    assert control.read_text() == "+pids"
    control.write_text("cpu pids")
    groups._delegate(tmp_path)
    assert control.read_text() == "cpu pids"


@pytest.mark.parametrize(("refused", "peak", "full"), [(0, 200, False), (3, 256, True), (3, 100, False), (3, None, True)])
def test_a_group_was_full_if_its_own_bound_refused_a_task(tmp_path, refused, peak, full):
    (tmp_path / "pids.events").write_text(f"max {refused}\n")
    if peak is not None:
        (tmp_path / "pids.peak").write_text(f"{peak}\n")
    assert TaskGroup(tmp_path, 256).was_full is full


def test_a_group_that_is_gone_was_not_full_and_has_no_members(tmp_path):
    group = TaskGroup(tmp_path / "gone", 8)
    assert not group.was_full
    assert group.members() == []
    group.remove()


def test_members_of_a_threaded_group_are_threads(tmp_path):
    (tmp_path / "cgroup.threads").write_text("7\n8\n")
    assert TaskGroup(tmp_path, 8).members() == [7, 8]


def test_a_group_that_the_kernel_refuses_is_not_left_half_made(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        TaskGroups(tmp_path / "none").make(8)
    assert not (tmp_path / "none").exists()
