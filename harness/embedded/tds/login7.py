"""LOGIN7: [MS-TDS] section 2.2.6.4. Who the client is and what it wants to be told."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from harness.embedded.tds.packets import PACKET_SIZE_DEFAULT, PACKET_SIZE_MAX, PACKET_SIZE_MIN
from harness.embedded.tds.wire import ByteReader, TdsProtocolError, from_utf16

FIXED_SIZE = 94  # from Length to cbSSPILong
TDS_7_4 = 0x74000004
TDS_7_2 = 0x72090002  # older ones have other headers and tokens; SQL Server 2005 brought this one
FEATURES_MAX = 64  # ours: the specification defines about a dozen

_INTEGRATED_SECURITY = 0x80  # OptionFlags2
_EXTENSION = 0x10  # OptionFlags3
# Every obfuscated byte with its nibbles swapped back: [MS-TDS] "Login Data Validation and Encryption".
_DEOBFUSCATE = bytes(((byte ^ 0xA5) << 4 | (byte ^ 0xA5) >> 4) & 0xFF for byte in range(256))


class Feature(IntEnum):
    """FeatureId of FeatureExt."""

    SESSION_RECOVERY = 0x01
    UTF8_SUPPORT = 0x0A
    TERMINATOR = 0xFF


@dataclass(frozen=True, slots=True)
class Login7:
    tds_version: int
    packet_size: int
    host: str
    user: str
    password: str = field(repr=False)
    program: str
    server: str
    library: str
    language: str
    database: str
    integrated_security: bool
    features: dict[int, bytes] = field(default_factory=dict)

    @classmethod
    def decode(cls, payload: bytes) -> Login7:
        if len(payload) < FIXED_SIZE:
            raise TdsProtocolError(f"LOGIN7 of {len(payload)} bytes")
        reader = ByteReader(payload, 4)
        tds_version, packet_size = reader.ulong(), reader.ulong()
        if tds_version < TDS_7_2:
            raise TdsProtocolError(f"TDS version 0x{tds_version:08X}; 7.2 is the oldest understood")
        flags2, flags3 = payload[25], payload[27]
        text = [_text(payload, 36 + 4 * index) for index in (0, 1, 3, 4, 6, 7, 8)]
        host, user, program, server, library, language, database = text
        return cls(
            tds_version=tds_version,
            packet_size=min(max(packet_size or PACKET_SIZE_DEFAULT, PACKET_SIZE_MIN), PACKET_SIZE_MAX),
            host=host,
            user=user,
            password=from_utf16(_bytes(payload, 44).translate(_DEOBFUSCATE)),
            program=program,
            server=server,
            library=library,
            language=language,
            database=database,
            integrated_security=bool(flags2 & _INTEGRATED_SECURITY),
            features=_features(payload) if flags3 & _EXTENSION else {},
        )


def _bytes(payload: bytes, at: int) -> bytes:
    pointer = ByteReader(payload, at)
    offset, characters = pointer.ushort(), pointer.ushort()
    return ByteReader(payload, offset).take(2 * characters) if characters else b""


def _text(payload: bytes, at: int) -> str:
    return from_utf16(_bytes(payload, at))


def _features(payload: bytes) -> dict[int, bytes]:
    """FeatureExt: ibExtension points to a DWORD that points to (id, length, data)s."""
    pointer = ByteReader(payload, 56).ushort()
    reader = ByteReader(payload, ByteReader(payload, pointer).ulong())
    features: dict[int, bytes] = {}
    for _ in range(FEATURES_MAX):
        feature = reader.byte()
        if feature == Feature.TERMINATOR:
            return features
        features[feature] = reader.take(reader.ulong())
    raise TdsProtocolError("LOGIN7 features without an end")
