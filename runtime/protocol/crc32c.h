// CRC-32C (Castagnoli), the checksum of checkpoint files and TensorBoard records.
//
// Reflected polynomial 0x82F63B78, initial value and final xor 0xFFFFFFFF (RFC 3720, appendix B.4).
// The SSE4.2 instruction is used where the processor has it, a table otherwise; both give the same
// value. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace muster {

// CRC of `bytes` bytes that follow data whose CRC is `crc`; crc = 0 starts anew.
std::uint32_t crc32c_extend(std::uint32_t crc, const void* data, std::size_t bytes);

// The table path, whatever the processor has; tests compare both.
std::uint32_t crc32c_extend_by_table(std::uint32_t crc, const void* data, std::size_t bytes);

// CRC of A B from the CRCs of A and B and the length of B.
std::uint32_t crc32c_combine(std::uint32_t crc_a, std::uint32_t crc_b, std::uint64_t bytes_b);

inline std::uint32_t crc32c(std::string_view text) {
  return crc32c_extend(0, text.data(), text.size());
}

}  // namespace muster
