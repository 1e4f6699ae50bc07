"""Workloads: made up, sampled, in columns."""

from hwheel.cli.demo.workload import Request, made_up, sample, workload_of


def test_a_made_up_workload_has_a_steady_rate_and_exactly_the_share_that_completes():
    requests = made_up(1000, 100.0, 0.95, (1000.0, 10_000.0), seed=1)
    assert [request.start_ms for request in requests] == [index * 10.0 for index in range(1000)]
    assert sum(request.end_ms is not None for request in requests) == 950
    assert all(1000 <= request.timeout_ms <= 10_000 for request in requests)


def test_who_completes_does_so_before_nine_tenths_of_its_timeout():
    for start_ms, timeout_ms, end_ms in made_up(1000, 100.0, 1.0, (10.0, 20.0), seed=1):
        assert start_ms <= end_ms <= start_ms + timeout_ms * 0.9 + 1e-6


def test_the_seed_decides():
    assert made_up(50, 10.0, 0.5, (1.0, 2.0), seed=7) == made_up(50, 10.0, 0.5, (1.0, 2.0), seed=7)
    assert made_up(50, 10.0, 0.5, (1.0, 2.0), seed=7) != made_up(50, 10.0, 0.5, (1.0, 2.0), seed=8)


def test_a_workload_starts_at_zero_in_order_and_knows_who_ends_when():
    workload = workload_of([Request(5500, 100, 5600), Request(5000, 2000, None), Request(5250, 50, 5260)])
    assert workload.starts_s == [0.0, 0.25, 0.5]
    assert workload.timeouts_s == [2.0, 0.05, 0.1]
    assert (workload.ends_s, workload.ending) == ([0.26, 0.6], [1, 2])
    assert workload.seconds == 2.0


def test_speed_divides_starts_timeouts_and_ends():
    workload = workload_of([Request(0, 1000, None), Request(400, 800, 600)], speed=4)
    assert workload == ([0.0, 0.1], [0.25, 0.2], [0.15], [1])


def test_a_sample_is_spread_evenly_and_no_larger_than_what_there_is():
    requests = made_up(10, 10.0, 0.5, (1.0, 2.0), seed=0)
    assert sample(requests, 5) == requests[::2]
    assert sample(requests, 50) == requests
