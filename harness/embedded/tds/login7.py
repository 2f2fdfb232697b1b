"""LOGIN7: [MS-TDS] section 2.2.6.4. The client's name, password, database and wishes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from harness.embedded.tds.packets import PACKET_SIZE_DEFAULT, PACKET_SIZE_MAX, PACKET_SIZE_MIN
from harness.embedded.tds.wire import ByteReader, TdsProtocolError, from_utf16

FIXED_SIZE = 94  # from Length to cbSSPILong
TDS_7_4 = 0x74000004
TDS_7_2 = 0x72090002  # since SQL Server 2005; older versions have other headers and tokens
FEATURES_MAX = 64  # our limit: the specification defines about a dozen

_INTEGRATED_SECURITY = 0x80  # OptionFlags2
_EXTENSION = 0x10  # OptionFlags3
# Every obfuscated byte with its nibbles swapped back: [MS-TDS] "Login Data Validation and Encryption".
_DEOBFUSCATE = bytes(((byte ^ 0xA5) << 4 | (byte ^ 0xA5) >> 4) & 0xFF for byte in range(256))


class Feature(IntEnum):
    """FeatureId of FeatureExt, as far as it is granted."""

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
            features=_features(payload) if flags3 & _EXTENSION else {},
        )


def _bytes(payload: bytes, at: int) -> bytes:
    pointer = ByteReader(payload, at)
    offset, characters = pointer.ushort(), pointer.ushort()
    return ByteReader(payload, offset).take(2 * characters) if characters else b""


def _text(payload: bytes, at: int) -> str:
    return from_utf16(_bytes(payload, at))


def _features(payload: bytes) -> dict[int, bytes]:
    """FeatureExt: ibExtension points to a DWORD that points to the features, each an id, a length and data."""
    pointer = ByteReader(payload, 56).ushort()
    reader = ByteReader(payload, ByteReader(payload, pointer).ulong())
    features: dict[int, bytes] = {}
    for _ in range(FEATURES_MAX):
        feature = reader.byte()
        if feature == Feature.TERMINATOR:
            return features
        features[feature] = reader.take(reader.ulong())
    raise TdsProtocolError(f"more than {FEATURES_MAX} LOGIN7 features")
