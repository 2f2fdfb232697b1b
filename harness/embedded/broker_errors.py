"""The texts of Service Broker's own errors, 8403 to 9799 and from 28000; `errors.CATALOGUE` includes them."""

from __future__ import annotations

from typing import NamedTuple


class ErrorText(NamedTuple):
    severity: int
    text: str


SERVICE_BROKER: dict[int, ErrorText] = {
    8403: ErrorText(16, "The message type '%s' is specified more than once. Remove the duplicate message type."),
    8404: ErrorText(
        16,
        "The service contract '%s' is specified more than once. Remove the duplicate service contract.",
    ),
    8406: ErrorText(16, "The dialog lifetime can not be NULL. Specify a valid dialog lifetime value from %s to %s."),
    8408: ErrorText(16, "Target service '%s' does not support contract '%s'."),
    8410: ErrorText(16, "The conversation timer cannot be set beyond the conversation's lifetime."),
    8411: ErrorText(
        16,
        "The dialog lifetime value of %s is outside the allowable range of 1 to 2147483647. Specify a "
        "valid dialog lifetime value.",
    ),
    8415: ErrorText(
        16,
        "The activated task was aborted because the invoked stored procedure '%s' did not issue COMMIT "
        "or ROLLBACK on one or more transactions that it begun.",
    ),
    8417: ErrorText(16, "The service contract name or service name of the statement is NULL."),
    8418: ErrorText(16, "The conversation handle is missing. Specify a conversation handle."),
    8419: ErrorText(
        16,
        "Both the error code and the description must be provided for END CONVERSATION WITH ERROR. "
        "Neither value can be NULL.",
    ),
    8420: ErrorText(16, "The conversation group is missing. Specify a conversation group."),
    8421: ErrorText(16, "The service name is missing. Specify a service name."),
    8423: ErrorText(16, 'The service "%s" is not found.'),
    8424: ErrorText(
        16,
        "The error code and error description are missing. Specify both the error code and description of the error.",
    ),
    8425: ErrorText(16, "The service contract '%s' is not found."),
    8426: ErrorText(16, 'The conversation handle "%s" is not found.'),
    8427: ErrorText(
        16,
        "The conversation endpoint is not in a valid state for END CONVERSATION. The current endpoint state is '%s'.",
    ),
    8428: ErrorText(16, 'The message type "%s" is not found.'),
    8429: ErrorText(
        16,
        "The conversation endpoint is not in a valid state for SEND. The current endpoint state is '%s'.",
    ),
    8430: ErrorText(16, "The message body failed the configured validation."),
    8431: ErrorText(16, "The message type '%s' is not part of the service contract."),
    8432: ErrorText(
        16,
        "The message cannot be sent because the message type '%s' is marked SENT BY TARGET in the "
        "contract, however this service is an Initiator.",
    ),
    8433: ErrorText(16, "The message body may not be NULL. A zero-length UNICODE or binary string is allowed."),
    8434: ErrorText(
        16,
        "The message cannot be sent because the message type '%s' is marked SENT BY INTITIATOR in the "
        "contract, however this service is a Target.",
    ),
    8435: ErrorText(16, 'The conversation handle "%s" at position %s is not found.'),
    8436: ErrorText(16, 'The conversation group "%s" is not found.'),
    8437: ErrorText(
        16,
        "The message received was sent by a Target service, but the message type '%s' is marked SENT BY "
        "INITIATOR in the contract.",
    ),
    8438: ErrorText(
        16,
        "The conversation endpoint is not in a valid state for MOVE CONVERSATION. The current endpoint state is '%s'.",
    ),
    8439: ErrorText(16, "The destination conversation group '%s' is invalid."),
    8441: ErrorText(16, "The conversation handle at position %s is missing. Specify a conversation handle."),
    8447: ErrorText(
        16,
        "A RECEIVE statement that assigns a value to a variable must not be combined with data retrieval operations.",
    ),
    8450: ErrorText(16, "Assignments in the RECEIVE projection are not allowed in conjunction with the INTO clause."),
    8451: ErrorText(16, "The conversation handle '%s' at position %s appears more than once."),
    8457: ErrorText(
        16,
        "The message received was sent by the initiator of the conversation, but the message type '%s' "
        "is marked SENT BY TARGET in the contract.",
    ),
    8458: ErrorText(
        16,
        "The conversation endpoint is not in a valid state for BEGIN CONVERSATION TIMER. The current "
        "endpoint state is '%s'.",
    ),
    8459: ErrorText(16, "The message size, including header information, exceeds the maximum allowed of %s."),
    8462: ErrorText(
        16,
        "The remote conversation endpoint is either in a state where no more messages can be exchanged, "
        "or it has been dropped.",
    ),
    8470: ErrorText(16, "Remote service has been dropped."),
    8487: ErrorText(16, "The remote service contract has been dropped."),
    8489: ErrorText(16, "The dialog has exceeded the specified LIFETIME."),
    8490: ErrorText(16, "Cannot find the remote service '%s' because it does not exist."),
    8492: ErrorText(16, "The service contract '%s' must have at least one message SENT BY INITIATOR or ANY."),
    8493: ErrorText(16, "The alter of service '%s' must change the queue or at least one contract."),
    8494: ErrorText(16, "You do not have permission to access the service '%s'."),
    8498: ErrorText(16, "The remote service has sent a message of type '%s' that is not part of the local contract."),
    9610: ErrorText(
        16,
        "The service '%s' in the FROM SERVICE clause must match the service '%s' referenced by %s = '%s'.",
    ),
    9614: ErrorText(
        16,
        "The queue '%s' cannot be activated because the activation stored procedure is either not "
        "specified or is invalid.",
    ),
    9617: ErrorText(16, 'The service queue "%s" is currently disabled.'),
    9618: ErrorText(
        16,
        "The message cannot be sent because the service queue '%s' associated with the dialog is "
        "currently disabled and retention is on.",
    ),
    9619: ErrorText(
        16,
        "Failed to create remote service binding '%s'. A remote service binding for service '%s' already exists.",
    ),
    9648: ErrorText(
        20,
        "The queue '%s' has been enabled for activation, but the MAX_QUEUE_READERS is zero. No "
        "procedures will be activated. Consider increasing the number of MAX_QUEUE_READERS.",
    ),
    9653: ErrorText(16, "The signature of activation stored procedure is invalid. Parameters are not allowed."),
    9659: ErrorText(16, "The %s of route '%s' cannot be empty."),
    9661: ErrorText(16, 'The SERVICE_NAME and BROKER_INSTANCE of route "%s" must be specified when using mirroring.'),
    9662: ErrorText(16, 'Cannot specify BROKER_INSTANCE without SERVICE_NAME in route "%s".'),
    9663: ErrorText(16, "The system object cannot be modified."),
    9692: ErrorText(
        16,
        "The Service Broker endpoint cannot listen on port %s because it is in use by another process.",
    ),
    9717: ErrorText(
        16,
        "Cannot enable stored procedure activation on queue '%s'. Event notification for "
        "queue_activation is already configured on this queue.",
    ),
    9718: ErrorText(
        16,
        'Cannot create event notification for queue_activation on queue "%s". Stored procedure '
        "activation is already configured on this queue.",
    ),
    9719: ErrorText(16, "The database for this conversation endpoint is attached or restored."),
    9724: ErrorText(10, "The activated proc '%s' running on queue '%s' output the following:  '%s'"),
    9727: ErrorText(
        16,
        "Dialog security is not available for this conversation because there is no remote service "
        "binding for the target service. Create a remote service binding, or specify ENCRYPTION = OFF "
        "in the BEGIN DIALOG statement.",
    ),
    9731: ErrorText(
        16,
        "Dialog security is unavailable for this conversation because there is no security certificate "
        "bound to the database principal (Id: %s). Either create a certificate for the principal, or "
        "specify ENCRYPTION = OFF when beginning the conversation.",
    ),
    9742: ErrorText(
        16,
        "The activation stored procedure is invalid. Temporary procedures may not be configured for activation.",
    ),
    9743: ErrorText(16, 'The %s of route "%s" must be an address when using mirroring.'),
    9744: ErrorText(16, 'The %s of route "%s" is not a valid address.'),
    9745: ErrorText(16, "The ADDRESS of route '%s' cannot be 'TRANSPORT' when SERVICE_NAME is specified."),
    9746: ErrorText(16, "The LIFETIME of route '%s' must be in the range 1 to 2147483647."),
    9747: ErrorText(16, "The ADDRESS and MIRROR_ADDRESS of route '%s' cannot be the same."),
    9748: ErrorText(10, "The Service Broker protocol transport is not available."),
    9750: ErrorText(
        10,
        "No route matches the destination service name for this conversation. Create a route to the "
        "destination service name for messages in this conversation to be delivered.",
    ),
    9754: ErrorText(10, "Connection attempt failed with error: '%s'."),
    9770: ErrorText(10, "Locating routes and security information via the Broker Configuration Service."),
    9772: ErrorText(
        16,
        'The Service Broker in database "%s" cannot be enabled because there is already an enabled '
        "Service Broker with the same ID.",
    ),
    9775: ErrorText(16, 'Cannot create a new Service Broker in read-only database "%s".'),
    9785: ErrorText(10, "Invalid address specified: '%s'."),
    9791: ErrorText(10, "The broker is disabled in the sender's database."),
    9793: ErrorText(
        10,
        "The target service name could not be found. Ensure that the service name is specified "
        "correctly and/or the routing information has been supplied.",
    ),
    9795: ErrorText(10, "Could not find the target broker in the local SQL Server instance."),
    28006: ErrorText(
        14,
        "User does not have permission to %s the conversation '%s' in state '%s'. Only members of the sysadmin fixed "
        "server role and the db_owner fixed database role have this permission.",
    ),
    28013: ErrorText(16, "The service broker is administratively disabled."),
    28021: ErrorText(16, "One or more messages could not be delivered to the local service targeted by this dialog."),
    28054: ErrorText(
        16,
        "Service Broker needs to access the master key in the database '%s'. Error code:%s. The master "
        "key has to exist and the service master key encryption is required.",
    ),
}
