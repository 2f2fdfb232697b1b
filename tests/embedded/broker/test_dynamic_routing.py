"""Routes that the service SQL/ServiceBroker/BrokerConfiguration is asked for."""

import pytest

from harness.embedded.broker import ddl_network, ddl_services, system_objects
from harness.embedded.broker.definitions import QueueOptions
from harness.embedded.broker.dynamic_routing import PAUSE_NS
from harness.embedded.broker.router import BROKER_CONFIGURATION
from harness.embedded.runtime.tasks import SECOND
from tests.embedded.broker.world import Q, bodies, handle_of, kinds

CONFIGURATION_QUEUE = "dbo.configuration"
PAUSE_S = PAUSE_NS / SECOND


@pytest.fixture
def configured(here):
    """An instance whose database asks a service of its own for routes."""
    return configure(here)


def configure(instance):
    notice = system_objects.CONFIGURATION_NOTICE

    def set_up(tx):
        catalog = instance.db.catalog
        ddl_services.create_queue(tx, catalog, "dbo", "configuration", QueueOptions())
        ddl_services.create_service(tx, catalog, BROKER_CONFIGURATION, queue=CONFIGURATION_QUEUE, contracts=[notice])
        ddl_network.create_route(tx, catalog, "ask", service_name=BROKER_CONFIGURATION, address="LOCAL")

    instance.ddl(set_up)
    return instance


def requests(instance):
    return instance.receive(queue=CONFIGURATION_QUEUE)


def route_to(instance, service):
    instance.ddl(
        lambda tx: ddl_network.create_route(tx, instance.db.catalog, service, service_name=service, address="LOCAL")
    )


def test_a_missing_route_is_requested_once_and_the_messages_leave_when_it_exists(world, configured):
    here = configured
    handles = [here.begin(to_service="S") for _ in range(3)]
    for handle in handles:
        here.send(handle, b"hello")
    world.run_for(1)
    assert here.receive() == [] and "Broker Configuration" in here.db.transmission_status(handles[0])
    [request] = requests(here)
    text = request.message_body.decode("utf-16-le").removeprefix("\ufeff")
    name = system_objects.MISSING_ROUTE
    assert request.message_type.name == name
    assert text == f'<MissingRoute xmlns="{name}"><SERVICE_NAME>S</SERVICE_NAME></MissingRoute>'
    route_to(here, "S")
    here.end(handle_of(request))
    world.run_for(1)
    assert bodies(here.receive_all()) == [b"hello"] * 3 and not here.db.transmission_queue
    assert BROKER_CONFIGURATION not in {one.terms.far_service for one in here.db.endpoints.values()}, "it has ended"


def test_a_request_names_the_broker_instance_of_the_dialog(world, configured):
    guid = "0F8FAD5B-D9CB-469F-A165-70867728950E"
    configured.send(configured.begin(to_service="a & b", to_broker_instance=guid))
    world.run_for(1)
    [request] = requests(configured)
    text = request.message_body.decode("utf-16-le")
    assert f"<SERVICE_NAME>a &amp; b</SERVICE_NAME><BROKER_INSTANCE>{guid}</BROKER_INSTANCE>" in text


@pytest.mark.parametrize("error", [None, (1, "no such service")])
def test_a_request_without_success_is_repeated_after_a_pause(world, configured, error):
    handle = configured.begin(to_service="nobody")
    configured.send(handle)
    world.run_for(1)
    [request] = requests(configured)
    configured.end(handle_of(request), error=error)
    world.run_for(PAUSE_S - 5)
    assert requests(configured) == []
    world.run_for(70)
    [again] = requests(configured)
    assert kinds([again]) == ["MissingRoute"]
    assert "Broker Configuration" in configured.db.transmission_status(handle)


def test_a_request_that_nobody_answers_is_not_repeated_and_ends_after_a_restart(world, configured):
    handle = configured.begin(to_service="S")
    configured.send(handle, b"hello")
    world.run_for(600)
    [request] = requests(configured)
    configured.crash()
    route_to(configured, "S")
    configured.end(handle_of(request))
    world.run_for(70)
    assert bodies(configured.receive_all()) == [b"hello"]
    assert not configured.db.catalog.queues["dbo.servicebrokerqueue"].depth
    assert configured.db.catalog.queues[Q].depth == 0


def test_a_missing_remote_service_binding_is_requested_and_the_message_leaves_when_it_exists(world, pair):
    initiator, target = pair
    world.secure(initiator, target)
    initiator.ddl(lambda tx: ddl_network.drop_remote_service_binding(tx, initiator.db.catalog, "binding"))
    configure(initiator)
    handle = world.dialog(initiator, target, encryption=True)
    initiator.send(handle, b"secret")
    world.run_for(1)
    assert "security information" in initiator.db.transmission_status(handle)
    assert target.receive() == []
    [request] = requests(initiator)
    name = system_objects.MISSING_BINDING
    text = request.message_body.decode("utf-16-le").removeprefix("\ufeff")
    assert (kinds([request]), text) == (
        ["MissingRemoteServiceBinding"],
        f'<MissingRemoteServiceBinding xmlns="{name}"><SERVICE_NAME>S</SERVICE_NAME></MissingRemoteServiceBinding>',
    )
    world.bind(initiator, target)
    initiator.end(handle_of(request))
    world.run_for(1)
    assert bodies(target.receive()) == [b"secret"] and not initiator.db.transmission_queue


@pytest.mark.parametrize("error", [None, (1, "no user context")])
def test_a_dialog_without_encryption_waits_for_the_answer_and_goes_on_without_a_binding(world, pair, error):
    initiator, target = pair
    world.secure(initiator, target)
    initiator.ddl(lambda tx: ddl_network.drop_remote_service_binding(tx, initiator.db.catalog, "binding"))
    before = world.dialog(initiator, target)
    initiator.send(before, b"before")
    world.run_for(1)
    assert bodies(target.receive()) == [b"before"]
    configure(initiator)
    for _ in range(2):
        initiator.send(world.dialog(initiator, target), b"open")
    initiator.send(before, b"under way")
    world.run_for(1)
    assert bodies(target.receive()) == [b"under way"]
    [request] = requests(initiator)
    assert kinds([request]) == ["MissingRemoteServiceBinding"]
    initiator.end(handle_of(request), error=error)
    world.run_for(1)
    assert bodies(target.receive_all()) == [b"open"] * 2
    initiator.send(world.dialog(initiator, target), b"later")
    world.run_for(1)
    assert bodies(target.receive()) == [b"later"] and requests(initiator) == []
