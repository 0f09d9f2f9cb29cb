#include "runtime/protocol/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace muster {
namespace {

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82F63B78u : 0u);
    table[byte] = crc;
  }
  return table;
}

constexpr std::array<std::uint32_t, 256> table = make_table();

// a b mod P over GF(2), bits reflected: the highest bit is x^0.
std::uint32_t product(std::uint32_t a, std::uint32_t b) {
  std::uint32_t sum = 0;
  for (std::uint32_t bit = 0x80000000; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) sum ^= b;
    b = (b >> 1) ^ ((b & 1) != 0 ? 0x82F63B78u : 0u);
  }
  return sum;
}

// x^(8 bytes) mod P: times this is what `bytes` zero bytes do to a state.
std::uint32_t shift_by(std::uint64_t bytes) {
  std::uint32_t shift = 0x80000000;   // x^0
  std::uint32_t square = 0x00800000;  // x^8: one byte
  for (; bytes > 0; bytes >>= 1) {
    if ((bytes & 1) != 0) shift = product(shift, square);
    square = product(square, square);
  }
  return shift;
}

#if defined(__x86_64__)
std::uint64_t word_at(const unsigned char* at) {
  std::uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

// The instruction takes three cycles but one can start in each, so three stretches that follow each
// other are read side by side and their states joined.
__attribute__((target("sse4.2"))) std::uint32_t extend_by_three(std::uint32_t state,
                                                                const unsigned char*& at,
                                                                std::size_t& bytes) {
  constexpr std::size_t stretch = 8192;
  static const std::uint32_t shift_one = shift_by(stretch);
  static const std::uint32_t shift_two = shift_by(2 * stretch);
  for (; bytes >= 3 * stretch; at += 3 * stretch, bytes -= 3 * stretch) {
    std::uint64_t first = state;
    std::uint64_t second = 0;
    std::uint64_t third = 0;
    for (std::size_t i = 0; i < stretch; i += 8) {
      first = _mm_crc32_u64(first, word_at(at + i));
      second = _mm_crc32_u64(second, word_at(at + stretch + i));
      third = _mm_crc32_u64(third, word_at(at + 2 * stretch + i));
    }
    state = product(shift_two, static_cast<std::uint32_t>(first)) ^
            product(shift_one, static_cast<std::uint32_t>(second)) ^
            static_cast<std::uint32_t>(third);
  }
  return state;
}

__attribute__((target("sse4.2"))) std::uint32_t extend_by_instruction(std::uint32_t crc,
                                                                      const unsigned char* at,
                                                                      std::size_t bytes) {
  std::uint64_t state = extend_by_three(crc ^ 0xFFFFFFFFu, at, bytes);
  for (; bytes >= 8; at += 8, bytes -= 8) state = _mm_crc32_u64(state, word_at(at));
  auto narrow = static_cast<std::uint32_t>(state);
  for (; bytes > 0; ++at, --bytes) narrow = _mm_crc32_u8(narrow, *at);
  return narrow ^ 0xFFFFFFFFu;
}
#endif

}  // namespace

std::uint32_t crc32c_extend_by_table(std::uint32_t crc, const void* data, std::size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(data);
  std::uint32_t state = crc ^ 0xFFFFFFFFu;
  for (; bytes > 0; ++at, --bytes) state = (state >> 8) ^ table[(state ^ *at) & 0xFF];
  return state ^ 0xFFFFFFFFu;
}

std::uint32_t crc32c_extend(std::uint32_t crc, const void* data, std::size_t bytes) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) {
    return extend_by_instruction(crc, static_cast<const unsigned char*>(data), bytes);
  }
#endif
  return crc32c_extend_by_table(crc, data, bytes);
}

std::uint32_t crc32c_combine(std::uint32_t crc_a, std::uint32_t crc_b, std::uint64_t bytes_b) {
  return product(shift_by(bytes_b), crc_a) ^ crc_b;
}

}  // namespace muster
