// A tokenizer as a file: the `tokenizer.json` of Hugging Face's tokenizers, model BPE, byte-level.
//
// Bytes stand as the printable characters of GPT-2's table. Of what such a file may ask for, only
// what leads to the tokens of tokenizer.h is read: the pre-tokenizer ByteLevel with its pattern and
// without a space put in front, no normalizer, no dropout; anything else is refused. Special tokens
// are those of `added_tokens`; the end of a document is the one named, by default <|endoftext|>, or
// byte 0 in a file that has no special token at all.
#pragma once

#include <string>
#include <string_view>

#include "runtime/tokenize/tokenizer.h"

namespace muster {

inline constexpr const char* tokenizer_file_name = "tokenizer.json";
inline constexpr std::uint64_t tokenizer_file_limit_bytes = 256ull << 20;

std::string format_tokenizer(const Tokenizer& tokenizer);

// Accepts any bytes. `end_of_document` empty: as above.
Checked<Tokenizer> parse_tokenizer(std::string_view text, const std::string& end_of_document);

// 16 hex digits, equal for equal texts of a file.
std::string tokenizer_hash(std::string_view text);

}  // namespace muster
