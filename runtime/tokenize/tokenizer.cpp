#include "runtime/tokenize/tokenizer.h"

#include <algorithm>
#include <queue>
#include <set>
#include <unordered_map>

#include "runtime/tokenize/text_blocks.h"

namespace muster {
namespace {

constexpr std::size_t short_word_tokens = 48;  // up to here a scan per merge beats a heap
constexpr std::size_t remembered_word_bytes = 64;
constexpr std::size_t remembered_tokens_limit = 1 << 22;

struct MixedHash {
  std::size_t operator()(std::uint64_t key) const {
    key = (key ^ (key >> 32)) * 0x9E3779B97F4A7C15ull;
    return key ^ (key >> 29);
  }
};

// The counts of all pairs, kept up to date merge by merge.
class PairCounts {
 public:
  explicit PairCounts(const WordCounts& counts) {
    for (const WordCounts::Counted& counted : counts.sorted()) {
      Word word{tokens_.size(), counted.word.size(), static_cast<std::int64_t>(counted.count)};
      for (const char byte : counted.word) tokens_.push_back(static_cast<unsigned char>(byte));
      words_.push_back(word);
    }
    for (std::uint32_t w = 0; w < words_.size(); ++w) {
      const std::uint32_t* at = &tokens_[words_[w].begin];
      for (std::size_t i = 0; i + 1 < words_[w].length; ++i) change(at[i], at[i + 1], w, 1);
    }
    for (const auto& [key, pair] : pairs_) heap_.push({pair.count, key});
  }

  // The most frequent pair and how often it occurs; 0 when there is none.
  std::pair<TokenPair, std::int64_t> best() {
    while (!heap_.empty()) {
      const Candidate top = heap_.top();
      const std::int64_t now = pairs_[top.key].count;
      if (now == top.count) {
        return {{static_cast<std::uint32_t>(top.key >> 32), static_cast<std::uint32_t>(top.key)},
                now};
      }
      heap_.pop();
      if (now > 0 && now < top.count) heap_.push({now, top.key});
    }
    return {{0, 0}, 0};
  }

  // Puts `token` in the place of every such pair.
  void merge(const TokenPair& pair, std::uint32_t token) {
    const std::uint64_t key = token_pair_key(pair.first, pair.second);
    std::vector<std::uint32_t> places = std::move(pairs_[key].words);
    grown_.clear();
    std::sort(places.begin(), places.end());
    places.erase(std::unique(places.begin(), places.end()), places.end());
    for (const std::uint32_t w : places) merge_in(w, pair, token);
    pairs_[key] = {};
    std::sort(grown_.begin(), grown_.end());
    grown_.erase(std::unique(grown_.begin(), grown_.end()), grown_.end());
    for (const std::uint64_t other : grown_) {
      if (pairs_[other].count > 0) heap_.push({pairs_[other].count, other});
    }
  }

 private:
  struct Word {
    std::size_t begin;  // in tokens_
    std::size_t length;
    std::int64_t count;
  };
  struct Pair {
    std::int64_t count = 0;
    std::vector<std::uint32_t> words;  // where it occurs, or did; some twice
  };
  struct Candidate {
    std::int64_t count;
    std::uint64_t key;
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : key > other.key;
    }
  };

  // `sign` occurrences more in word `w`.
  void change(std::uint32_t left, std::uint32_t right, std::uint32_t w, std::int64_t sign) {
    const std::uint64_t key = token_pair_key(left, right);
    Pair& pair = pairs_[key];
    pair.count += sign * words_[w].count;
    if (sign < 0) return;
    if (pair.words.empty() || pair.words.back() != w) pair.words.push_back(w);
    grown_.push_back(key);
  }

  void merge_in(std::uint32_t w, const TokenPair& pair, std::uint32_t token) {
    Word& word = words_[w];
    std::uint32_t* at = &tokens_[word.begin];
    std::size_t kept = 0;
    for (std::size_t i = 0; i < word.length; ++i) {
      const bool found = i + 1 < word.length && at[i] == pair.first && at[i + 1] == pair.second;
      if (!found) {
        at[kept++] = at[i];
        continue;
      }
      if (kept > 0) {
        change(at[kept - 1], pair.first, w, -1);
        change(at[kept - 1], token, w, 1);
      }
      if (i + 2 < word.length) {
        change(pair.second, at[i + 2], w, -1);
        change(token, at[i + 2], w, 1);
      }
      at[kept++] = token;
      ++i;
    }
    word.length = kept;
  }

  std::vector<std::uint32_t> tokens_;
  std::vector<Word> words_;
  std::unordered_map<std::uint64_t, Pair, MixedHash> pairs_;
  std::vector<std::uint64_t> grown_;  // pairs that became more since the last merge
  std::priority_queue<Candidate> heap_;
};

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

void WordCounts::add_word(std::string_view word, std::uint64_t count) {
  bool is_new = false;
  table_.at(word, is_new) += count;
}

void WordCounts::add_text(std::string_view text) {
  WordSplitter words(text);
  for (std::string_view word = words.next(); !word.empty(); word = words.next()) {
    for (; word.size() > training_word_bytes; word.remove_prefix(training_word_bytes)) {
      add_word(word.substr(0, training_word_bytes), 1);
    }
    add_word(word, 1);
  }
}

void WordCounts::add(const WordCounts& other) {
  for (const auto& entry : other.table_.entries()) {
    add_word(other.table_.key_of(entry), entry.value);
  }
}

std::vector<WordCounts::Counted> WordCounts::sorted() const {
  std::vector<Counted> all;
  for (const auto& entry : table_.entries()) all.push_back({table_.key_of(entry), entry.value});
  std::sort(all.begin(), all.end(),
            [](const Counted& a, const Counted& b) { return a.word < b.word; });
  return all;
}

Tokenizer train_tokenizer(const WordCounts& words, std::size_t vocabulary) {
  TokenizerParts parts = Tokenizer::of_bytes().parts();
  std::unordered_map<std::string, std::uint32_t> by_bytes;
  for (std::uint32_t byte = 0; byte < 256; ++byte) by_bytes[parts.tokens[byte]] = byte;
  std::set<TokenPair> merged;
  PairCounts pairs(words);
  while (parts.tokens.size() + 1 < vocabulary) {
    const auto [pair, count] = pairs.best();
    if (count < 2) break;
    const std::string bytes = parts.tokens[pair.first] + parts.tokens[pair.second];
    // Two pairs may join to the same bytes; they are one token then.
    const auto [found, is_new] =
        by_bytes.emplace(bytes, static_cast<std::uint32_t>(parts.tokens.size()));
    if (is_new) parts.tokens.push_back(bytes);
    // A pair comes back when another one joins to its first or second token.
    if (merged.insert(pair).second) parts.merges.push_back(pair);
    pairs.merge(pair, found->second);
  }
  parts.end_of_document = static_cast<std::uint32_t>(parts.tokens.size());
  parts.special.assign(1, parts.end_of_document);
  parts.tokens.emplace_back(usual_end_of_document);
  return std::move(Tokenizer::make(std::move(parts)).value());
}

}  // namespace muster
