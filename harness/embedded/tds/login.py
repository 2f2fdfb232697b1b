"""What precedes the first request: PRELOGIN, TLS and LOGIN7.

PRELOGIN ([MS-TDS] section 2.2.6.5) agrees on version and encryption. A client that asks for MARS goes
on without: SqlClient if the answer is 0, Microsoft's ODBC driver if it lacks that option. At 0 this driver closes the
connection and gives no reason. SqlClient alone sends the option FEDAUTHREQUIRED.

The handshake of TLS travels in PRELOGIN packets; what follows it is plain TLS. Only up to TLS 1.2: with 1.3 the server
would send session tickets after the handshake, when the client no longer expects PRELOGIN packets. SQL Server offers
1.3 only with TDS 8.0, where TLS comes first.

LOGIN7 (section 2.2.6.4) holds the client's name, password, database and wishes.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from enum import IntEnum

from harness.embedded.tds.packets import PACKET_SIZE_DEFAULT, PACKET_SIZE_MAX, PACKET_SIZE_MIN
from harness.embedded.tds.wire import ByteReader, ByteWriter, TdsProtocolError, from_utf16

OPTIONS_MAX = 64  # our limit: the specification defines nine
FEATURES_MAX = 64  # our limit: the specification defines about a dozen
FIXED_SIZE = 94  # of LOGIN7, from Length to cbSSPILong
TDS_7_4 = 0x74000004
TDS_7_2 = 0x72090002  # since SQL Server 2005; older versions have other headers and tokens
UTF8_SUPPORT = 0x0A  # FeatureId of FeatureExt

_TERMINATOR = 0xFF  # of the options of PRELOGIN and of the features of LOGIN7
_INTEGRATED_SECURITY = 0x80  # OptionFlags2
_EXTENSION, _CHANGED_PASSWORD = 0x10, 0x01  # OptionFlags3
_ATTACHED_FILE = 82  # place of ibAtchDBFile
# Every obfuscated byte with its nibbles swapped back: [MS-TDS] "Login Data Validation and Encryption".
_DEOBFUSCATE = bytes(((byte ^ 0xA5) << 4 | (byte ^ 0xA5) >> 4) & 0xFF for byte in range(256))
_TLS_READ_SIZE = 64 * 1024


class PreloginOption(IntEnum):
    VERSION = 0x00
    ENCRYPTION = 0x01
    INSTANCE = 0x02
    THREAD_ID = 0x03
    MARS = 0x04
    FEDAUTHREQUIRED = 0x06


class Encryption(IntEnum):
    OFF = 0x00
    ON = 0x01
    NOT_SUPPORTED = 0x02
    REQUIRED = 0x03


@dataclass(frozen=True, slots=True)
class Prelogin:
    """The options of a PRELOGIN message that this server reads."""

    version: tuple[int, int, int]  # major, minor, build
    encryption: Encryption
    is_sqlclient: bool = False

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
        is_sqlclient = PreloginOption.FEDAUTHREQUIRED in options
        return cls((version[0], version[1], int.from_bytes(version[2:4], "big")), encryption, is_sqlclient)

    def encode(self) -> ByteWriter:
        major, minor, build = self.version
        options = [
            (PreloginOption.VERSION, bytes((major, minor)) + build.to_bytes(2, "big") + b"\0\0"),
            (PreloginOption.ENCRYPTION, bytes((self.encryption,))),
            (PreloginOption.INSTANCE, b"\0"),
            (PreloginOption.THREAD_ID, b""),
            *([(PreloginOption.MARS, b"\0")] if self.is_sqlclient else []),
        ]
        out = ByteWriter()
        offset = 5 * len(options) + 1
        for option, data in options:
            out.byte(option)
            out += offset.to_bytes(2, "big") + len(data).to_bytes(2, "big")
            offset += len(data)
        out.byte(_TERMINATOR)
        for _, data in options:
            out += data
        return out


def _options(payload: bytes) -> dict[int, bytes]:
    reader = ByteReader(payload)
    options: dict[int, bytes] = {}
    for _ in range(OPTIONS_MAX):
        option = reader.byte()
        if option == _TERMINATOR:
            return options
        offset = int.from_bytes(reader.take(2), "big")
        length = int.from_bytes(reader.take(2), "big")
        options[option] = ByteReader(payload, offset).take(length)
    raise TdsProtocolError(f"more than {OPTIONS_MAX} PRELOGIN options")


class TlsLayer:
    """The server's end of TLS between two byte streams."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.established = False

    def shake_hands(self, data: bytes) -> bytes:
        """Take the client's next part of the handshake and return the answer."""
        self._incoming.write(data)
        try:
            self._tls.do_handshake()
            self.established = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            raise TdsProtocolError(f"TLS handshake: {error}") from error
        return self._outgoing.read()

    def decrypt(self, data: bytes) -> bytes:
        self._incoming.write(data)
        parts: list[bytes] = []
        try:
            while part := self._tls.read(_TLS_READ_SIZE):
                parts.append(part)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            raise TdsProtocolError(f"TLS: {error}") from error
        return b"".join(parts)

    def encrypt(self, data: bytes) -> bytes:
        self._tls.write(data)
        return self._outgoing.read()


@dataclass(frozen=True, slots=True)
class Login7:
    tds_version: int
    packet_size: int
    host: str
    user: str
    password: str = field(repr=False)
    program: str
    database: str
    integrated_security: bool
    features: frozenset[int]
    unsupported: str = ""  # a wish that this server cannot meet

    @classmethod
    def decode(cls, payload: bytes) -> Login7:
        if len(payload) < FIXED_SIZE:
            raise TdsProtocolError(f"LOGIN7 of {len(payload)} bytes")
        reader = ByteReader(payload, 4)
        tds_version, packet_size = reader.ulong(), reader.ulong()
        if tds_version < TDS_7_2:
            raise TdsProtocolError(f"TDS version 0x{tds_version:08X}; 7.2 is the oldest supported")
        flags2, flags3 = payload[25], payload[27]
        return cls(
            tds_version=tds_version,
            packet_size=min(max(packet_size or PACKET_SIZE_DEFAULT, PACKET_SIZE_MIN), PACKET_SIZE_MAX),
            host=_text(payload, 36),
            user=_text(payload, 40),
            password=from_utf16(_bytes(payload, 44).translate(_DEOBFUSCATE)),
            program=_text(payload, 48),
            database=_text(payload, 68),
            integrated_security=bool(flags2 & _INTEGRATED_SECURITY),
            features=_features(payload) if flags3 & _EXTENSION and tds_version >= TDS_7_4 else frozenset(),
            unsupported=(
                "another password in a login: ALTER LOGIN"
                if flags3 & _CHANGED_PASSWORD
                else "the attachment of a file in a login"
                if _text(payload, _ATTACHED_FILE)
                else ""
            ),
        )


def _bytes(payload: bytes, at: int) -> bytes:
    pointer = ByteReader(payload, at)
    offset, characters = pointer.ushort(), pointer.ushort()
    return ByteReader(payload, offset).take(2 * characters) if characters else b""


def _text(payload: bytes, at: int) -> str:
    return from_utf16(_bytes(payload, at))


def _features(payload: bytes) -> frozenset[int]:
    """The ids in FeatureExt. ibExtension points to a DWORD that points to them, each followed by a length and data."""
    pointer = ByteReader(payload, 56).ushort()
    reader = ByteReader(payload, ByteReader(payload, pointer).ulong())
    features: set[int] = set()
    for _ in range(FEATURES_MAX):
        feature = reader.byte()
        if feature == _TERMINATOR:
            return frozenset(features)
        features.add(feature)
        reader.take(reader.ulong())
    raise TdsProtocolError(f"more than {FEATURES_MAX} LOGIN7 features")
