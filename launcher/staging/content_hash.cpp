#include "launcher/staging/content_hash.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>

#include "scheduler/model/result.h"

namespace muster {

ContentHash::ContentHash(Kind kind) : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
  const EVP_MD* digest = kind == Kind::md5 ? EVP_md5() : EVP_sha256();
  check(context_ && EVP_DigestInit_ex(context_.get(), digest, nullptr) == 1,
        "a hash function is not available");
}

void ContentHash::add(std::string_view bytes) {
  check(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1, "SHA-256 failed");
}

std::string ContentHash::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  check(EVP_DigestFinal_ex(context_.get(), digest.data(), &length) == 1, "SHA-256 failed");
  static constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * length);
  for (unsigned int i = 0; i < length; ++i) {
    text += digits[digest[i] >> 4];
    text += digits[digest[i] & 15];
  }
  return text;
}

std::string content_hash_of(std::string_view bytes) {
  ContentHash hash;
  hash.add(bytes);
  return hash.finish();
}

bool is_content_hash(std::string_view text) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return text.size() == 64 && std::all_of(text.begin(), text.end(), is_digit);
}

}  // namespace muster
