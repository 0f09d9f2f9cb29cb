// The line of tokens that a run reads: any stretch of it, from any thread.
//
// Two of them: the bytes of text in memory, and files of tokens, mapped (shard_tokens.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

namespace muster {

// Tokens that cannot be read in the middle of a run, as one sentence.
struct DataError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual std::uint64_t size() const = 0;  // tokens

  // Tells that these tokens are read soon.
  virtual void expect(std::uint64_t /*at*/, std::uint64_t /*count*/) const {}

  // Copies tokens [at, at + tokens.size()), which lie inside the line. Throws DataError.
  virtual void copy(std::uint64_t at, std::span<std::uint32_t> tokens) const = 0;
};

// Text in memory: a token is a byte.
class TextTokens final : public TokenSource {
 public:
  explicit TextTokens(std::string text) : text_(std::move(text)) {}
  std::uint64_t size() const override { return text_.size(); }
  void copy(std::uint64_t at, std::span<std::uint32_t> tokens) const override {
    std::transform(text_.begin() + static_cast<std::ptrdiff_t>(at),
                   text_.begin() + static_cast<std::ptrdiff_t>(at + tokens.size()), tokens.begin(),
                   [](char byte) { return static_cast<unsigned char>(byte); });
  }

 private:
  std::string text_;
};

}  // namespace muster
