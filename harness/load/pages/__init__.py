"""The pages: who may use one, the tabs with the instances by second, and what else each page has.

- `guard`: keeps other web pages away from a page, and other people from one beyond this machine
- `looks`: the tabs Queues, Monitors, Waits and Latches, on every page
- `scenario`: the page of `harness ui`: Locust's own, whose form asks for a scenario
- `sweep`: the page of `harness matrix --web`: cells, time left, figures
- `openmetrics`: numbers for Prometheus, also of `harness monitors`; `grafana.json` is a dashboard of them
"""
