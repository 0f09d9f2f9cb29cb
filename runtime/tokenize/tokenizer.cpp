#include "runtime/tokenize/tokenizer.h"

#include <algorithm>
#include <queue>

#include "runtime/tokenize/word_splitter.h"

namespace muster {
namespace {

constexpr std::size_t short_word_tokens = 48;  // up to here a scan per merge beats a heap
constexpr std::size_t remembered_word_bytes = 64;
constexpr std::size_t remembered_tokens_limit = 1 << 22;

}  // namespace

Checked<Tokenizer> Tokenizer::make(TokenizerParts parts) {
  Tokenizer tokenizer;
  std::unordered_map<std::string_view, std::uint32_t> by_bytes;
  for (std::uint32_t token = 0; token < parts.tokens.size(); ++token) {
    if (std::binary_search(parts.special.begin(), parts.special.end(), token)) continue;
    if (parts.tokens[token].empty() || !by_bytes.emplace(parts.tokens[token], token).second) {
      return CheckpointFault{"token " + std::to_string(token) + " is empty or a duplicate", true};
    }
  }
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = by_bytes.find(std::string(1, static_cast<char>(byte)));
    if (found == by_bytes.end()) {
      return CheckpointFault{"byte " + std::to_string(byte) + " has no token", true};
    }
    tokenizer.byte_tokens_.push_back(found->second);
  }
  for (std::uint32_t rank = 0; rank < parts.merges.size(); ++rank) {
    const auto [left, right] = parts.merges[rank];
    const std::string number = "merge " + std::to_string(rank);
    if (left >= parts.tokens.size() || right >= parts.tokens.size()) {
      return CheckpointFault{number + " joins what is no token", true};
    }
    const auto found = by_bytes.find(parts.tokens[left] + parts.tokens[right]);
    if (found == by_bytes.end()) return CheckpointFault{number + " leads to no token", true};
    if (!tokenizer.merges_.emplace(token_pair_key(left, right), Merge{rank, found->second})
             .second) {
      return CheckpointFault{number + " is a duplicate", true};
    }
  }
  if (parts.end_of_document >= parts.tokens.size()) {
    return CheckpointFault{"the end of a document is no token", true};
  }
  tokenizer.parts_ = std::move(parts);
  return tokenizer;
}

Tokenizer Tokenizer::of_bytes() {
  TokenizerParts parts;
  for (int byte = 0; byte < 256; ++byte) parts.tokens.emplace_back(1, static_cast<char>(byte));
  return std::move(make(std::move(parts)).value());
}

std::string Tokenizer::decode(const std::vector<std::uint32_t>& tokens) const {
  std::string text;
  for (const std::uint32_t token : tokens) {
    const bool is_special = std::binary_search(parts_.special.begin(), parts_.special.end(), token);
    if (!is_special) text += parts_.tokens[token];
  }
  return text;
}

const Tokenizer::Merge* Tokenizer::merge_of(std::uint32_t left, std::uint32_t right) const {
  const auto found = merges_.find(token_pair_key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void Tokenizer::merge_word(std::vector<std::uint32_t>& word) const {
  word.size() <= short_word_tokens ? merge_short(word) : merge_long(word);
}

void Tokenizer::merge_short(std::vector<std::uint32_t>& word) const {
  while (word.size() > 1) {
    const Merge* best = nullptr;
    std::size_t place = 0;
    for (std::size_t i = 0; i + 1 < word.size(); ++i) {
      const Merge* merge = merge_of(word[i], word[i + 1]);
      if (merge == nullptr || (best != nullptr && merge->rank >= best->rank)) continue;
      best = merge;
      place = i;
    }
    if (best == nullptr) return;
    word[place] = best->token;
    word.erase(word.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

// The same merges in the same order, from a heap over the places of a list.
void Tokenizer::merge_long(std::vector<std::uint32_t>& word) const {
  struct Candidate {
    std::uint32_t rank;
    std::size_t place;
    std::uint32_t left;
    std::uint32_t right;
    bool operator<(const Candidate& other) const {
      return std::pair(rank, place) > std::pair(other.rank, other.place);
    }
  };
  const std::size_t end = word.size();
  std::vector<std::size_t> next(end);
  std::vector<std::size_t> previous(end);
  std::vector<bool> gone(end, false);
  for (std::size_t i = 0; i < end; ++i) {
    next[i] = i + 1;
    previous[i] = i == 0 ? end : i - 1;
  }
  std::priority_queue<Candidate> candidates;
  const auto consider = [&](std::size_t place) {
    if (place == end || next[place] == end) return;
    const std::uint32_t right = word[next[place]];
    if (const Merge* merge = merge_of(word[place], right)) {
      candidates.push({merge->rank, place, word[place], right});
    }
  };
  for (std::size_t i = 0; i + 1 < end; ++i) consider(i);
  while (!candidates.empty()) {
    const Candidate best = candidates.top();
    candidates.pop();
    const std::size_t place = best.place;
    if (gone[place] || word[place] != best.left || next[place] == end ||
        word[next[place]] != best.right) {
      continue;
    }
    const std::size_t joined = next[place];
    word[place] = merge_of(best.left, best.right)->token;
    gone[joined] = true;
    next[place] = next[joined];
    if (next[place] != end) previous[next[place]] = place;
    consider(previous[place]);
    consider(place);
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < end; i = next[i]) word[kept++] = word[i];
  word.resize(kept);
}

void Encoder::encode_word(std::string_view word, std::vector<std::uint32_t>& tokens) {
  word_.clear();
  for (const char byte : word) {
    word_.push_back(tokenizer_.token_of_byte(static_cast<unsigned char>(byte)));
  }
  tokenizer_.merge_word(word_);
  tokens.insert(tokens.end(), word_.begin(), word_.end());
}

void Encoder::encode(std::string_view text, std::vector<std::uint32_t>& tokens) {
  if (tokenizer_.parts().merges.empty()) {
    for (const char byte : text) {
      tokens.push_back(tokenizer_.token_of_byte(static_cast<unsigned char>(byte)));
    }
    return;
  }
  WordSplitter words(text);
  for (std::string_view word = words.next(); !word.empty(); word = words.next()) {
    if (word.size() > remembered_word_bytes) {
      encode_word(word, tokens);
      continue;
    }
    if (known_tokens_.size() > remembered_tokens_limit) {
      known_.clear();
      known_tokens_.clear();
    }
    bool is_new = false;
    Known& known = known_.at(word, is_new);
    if (is_new) {
      const std::size_t begin = tokens.size();
      encode_word(word, tokens);
      known.begin = static_cast<std::uint32_t>(known_tokens_.size());
      known.count = static_cast<std::uint32_t>(tokens.size() - begin);
      known_tokens_.insert(known_tokens_.end(), tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                           tokens.end());
    } else {
      const auto begin = known_tokens_.begin() + known.begin;
      tokens.insert(tokens.end(), begin, begin + known.count);
    }
  }
}

}  // namespace muster
