// The name of a blob: SHA-256 of its bytes as 64 lower-case hex digits. One hash at a time, not
// shared between threads.
#pragma once

#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace muster {

class ContentHash {
 public:
  enum class Kind { sha256, md5 };  // MD5: what stores tell of their objects
  explicit ContentHash(Kind kind = Kind::sha256);

  void add(std::string_view bytes);
  // The digest of everything added; the object is used up.
  std::string finish();

 private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

std::string content_hash_of(std::string_view bytes);

// Whether `text` may name a blob: hashes arrive from other machines and become file names.
bool is_content_hash(std::string_view text);

}  // namespace muster
