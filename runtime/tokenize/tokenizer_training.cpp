#include "runtime/tokenize/tokenizer_training.h"

#include <algorithm>
#include <queue>
#include <set>
#include <unordered_map>

#include "runtime/tokenize/word_splitter.h"

namespace muster {
namespace {

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
