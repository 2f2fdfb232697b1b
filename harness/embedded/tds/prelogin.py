"""PRELOGIN: [MS-TDS] section 2.2.6.5. Client and server agree on version and encryption before the login."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from harness.embedded.tds.wire import ByteReader, ByteWriter, TdsProtocolError

OPTIONS_MAX = 64  # our limit: the specification defines nine


class PreloginOption(IntEnum):
    VERSION = 0x00
    ENCRYPTION = 0x01
    INSTANCE = 0x02
    THREAD_ID = 0x03
    MARS = 0x04
    TERMINATOR = 0xFF


class Encryption(IntEnum):
    OFF = 0x00
    ON = 0x01
    NOT_SUPPORTED = 0x02
    REQUIRED = 0x03


# The answer to the client's wish. OFF would mean "TLS for the login alone"; this server answers that wish with no TLS
# at all, because it listens on the loopback interface unless the operator says otherwise.
ANSWER_WITH_CERTIFICATE = {
    Encryption.OFF: Encryption.NOT_SUPPORTED,
    Encryption.ON: Encryption.ON,
    Encryption.NOT_SUPPORTED: Encryption.NOT_SUPPORTED,
    Encryption.REQUIRED: Encryption.ON,
}
ANSWER_WITHOUT_CERTIFICATE = dict.fromkeys(Encryption, Encryption.NOT_SUPPORTED)


@dataclass(frozen=True, slots=True)
class Prelogin:
    """The options of a PRELOGIN message that this server reads."""

    version: tuple[int, int, int]  # major, minor, build
    encryption: Encryption

    @classmethod
    def decode(cls, payload: bytes) -> Prelogin:
        options = _options(payload)
        version = options.get(PreloginOption.VERSION, b"").ljust(6, b"\0")
        wish = options.get(PreloginOption.ENCRYPTION, b"\0")[:1] or b"\0"
        # 0x80 offers a client certificate, beside the other bits; this server ignores client certificates.
        try:
            encryption = Encryption(wish[0] & 0x7F)
        except ValueError:
            raise TdsProtocolError(f"unknown encryption option 0x{wish[0]:02X}") from None
        return cls((version[0], version[1], int.from_bytes(version[2:4], "big")), encryption)

    def encode(self) -> ByteWriter:
        major, minor, build = self.version
        options = [
            (PreloginOption.VERSION, bytes((major, minor)) + build.to_bytes(2, "big") + b"\0\0"),
            (PreloginOption.ENCRYPTION, bytes((self.encryption,))),
            (PreloginOption.INSTANCE, b"\0"),
            (PreloginOption.THREAD_ID, b""),
            (PreloginOption.MARS, b"\0"),
        ]
        out = ByteWriter()
        offset = 5 * len(options) + 1
        for option, data in options:
            out.byte(option)
            out += offset.to_bytes(2, "big") + len(data).to_bytes(2, "big")
            offset += len(data)
        out.byte(PreloginOption.TERMINATOR)
        for _, data in options:
            out += data
        return out


def _options(payload: bytes) -> dict[int, bytes]:
    reader = ByteReader(payload)
    options: dict[int, bytes] = {}
    for _ in range(OPTIONS_MAX):
        option = reader.byte()
        if option == PreloginOption.TERMINATOR:
            return options
        offset = int.from_bytes(reader.take(2), "big")
        length = int.from_bytes(reader.take(2), "big")
        options[option] = ByteReader(payload, offset).take(length)
    raise TdsProtocolError(f"more than {OPTIONS_MAX} PRELOGIN options")
