#include "cli/query/query.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "scheduler/text/text.h"

namespace muster {

namespace {

using QueryValue = nlohmann::ordered_json;
using QueryArguments = std::vector<QueryValue>;

using QueryFunction = QueryValue (*)(const QueryArguments& arguments);

// Whether `a` comes before `b`: among numbers or texts; false for anything else.
// Values of other kinds, null among them, come first: all equal, so that the order is a strict one.
bool query_less(const QueryValue& a, const QueryValue& b) {
  const auto kind = [](const QueryValue& value) {
    return value.is_number() ? 1 : value.is_string() ? 2 : 0;
  };
  if (kind(a) != kind(b)) return kind(a) < kind(b);
  return kind(a) != 0 && a < b;
}

// ---- functions; a call with values of the wrong type gives null

const std::string* text(const QueryValue& value) {
  return value.get_ptr<const std::string*>();
}

// Characters, not bytes.
std::size_t text_length(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  }));
}

QueryValue length(const QueryArguments& of) {
  if (const auto* characters = text(of[0])) return text_length(*characters);
  return of[0].is_structured() ? QueryValue(of[0].size()) : QueryValue();
}

QueryValue keys(const QueryArguments& of) {
  if (!of[0].is_object()) return nullptr;
  QueryValue out = QueryValue::array();
  for (const auto& item : of[0].items()) out.push_back(item.key());
  return out;
}

QueryValue values(const QueryArguments& of) {
  if (!of[0].is_object()) return nullptr;
  return QueryValue::array_t(of[0].begin(), of[0].end());
}

template <class Holds>
QueryValue of_texts(const QueryArguments& of, Holds holds) {
  const auto* whole = text(of[0]);
  const auto* part = text(of[1]);
  if (whole == nullptr || part == nullptr) return nullptr;
  return holds(*whole, *part);
}

QueryValue contains(const QueryArguments& of) {
  if (of[0].is_array()) return std::find(of[0].begin(), of[0].end(), of[1]) != of[0].end();
  return of_texts(of, [](const auto& whole, const auto& part) { return mentions(whole, part); });
}

QueryValue starts_with(const QueryArguments& of) {
  return of_texts(of, [](const auto& whole, const auto& part) { return whole.starts_with(part); });
}

QueryValue ends_with(const QueryArguments& of) {
  return of_texts(of, [](const auto& whole, const auto& part) { return whole.ends_with(part); });
}

QueryValue join(const QueryArguments& of) {
  const auto* glue = text(of[0]);
  if (glue == nullptr || !of[1].is_array()) return nullptr;
  std::string out;
  for (const QueryValue& item : of[1]) {
    if (!item.is_string()) return nullptr;
    out += (&item == &of[1].front() ? "" : *glue) + *text(item);
  }
  return out;
}

QueryValue sort(const QueryArguments& of) {
  if (!of[0].is_array()) return nullptr;
  QueryValue out = of[0];
  std::stable_sort(out.begin(), out.end(), query_less);
  return out;
}

QueryValue reverse(const QueryArguments& of) {
  if (!of[0].is_array()) return nullptr;
  QueryValue out = of[0];
  std::reverse(out.begin(), out.end());
  return out;
}

struct NamedQueryFunction {
  std::string_view name;
  std::size_t arguments;
  QueryFunction call;
};
constexpr NamedQueryFunction functions[] = {{"length", 1, length},
                                            {"keys", 1, keys},
                                            {"values", 1, values},
                                            {"contains", 2, contains},
                                            {"starts_with", 2, starts_with},
                                            {"ends_with", 2, ends_with},
                                            {"join", 2, join},
                                            {"sort", 1, sort},
                                            {"reverse", 1, reverse}};

// ---- steps: each a function from a value to its part, null where there is none

QueryValue itself(const QueryValue& value) {
  return value;
}

bool is_true(const QueryValue& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_string() || value.is_structured()) return !value.empty() && value != "";
  return !value.is_null();
}

Query then(Query first, Query second) {
  return [=](const QueryValue& value) { return second(first(value)); };
}

Query field(std::string name) {
  return [name = std::move(name)](const QueryValue& value) {
    const auto found = value.find(name);
    return found == value.end() ? QueryValue() : *found;
  };
}

Query element(std::int64_t index) {
  return [index](const QueryValue& value) {
    const auto size = static_cast<std::int64_t>(value.size());
    const std::int64_t at = index < 0 ? index + size : index;
    if (!value.is_array() || at < 0 || at >= size) return QueryValue();
    return value[static_cast<std::size_t>(at)];
  };
}

Query each(Query list, Query part) {
  return [=](const QueryValue& value) {
    const QueryValue items = list(value);
    if (!items.is_array()) return QueryValue();
    QueryValue out = QueryValue::array();
    for (const QueryValue& item : items) {
      if (QueryValue one = part(item); !one.is_null()) out.push_back(std::move(one));
    }
    return out;
  };
}

QueryValue flattened(const QueryValue& value) {
  if (!value.is_array()) return nullptr;
  QueryValue out = QueryValue::array();
  for (const QueryValue& item : value) {
    if (item.is_array())
      out.insert(out.end(), item.begin(), item.end());
    else
      out.push_back(item);
  }
  return out;
}

Query fitting(Query condition) {
  return [condition](const QueryValue& value) {
    if (!value.is_array()) return QueryValue();
    QueryValue out = QueryValue::array();
    std::copy_if(value.begin(), value.end(), std::back_inserter(out),
                 [&](const QueryValue& item) { return is_true(condition(item)); });
    return out;
  };
}

Query slice(std::optional<std::int64_t> begin, std::optional<std::int64_t> end) {
  return [=](const QueryValue& value) {
    if (!value.is_array()) return QueryValue();
    const auto size = static_cast<std::int64_t>(value.size());
    const auto place = [size](std::int64_t at) {
      return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size);
    };
    const std::int64_t last = place(end.value_or(size));
    const std::int64_t first = std::min(place(begin.value_or(0)), last);
    return QueryValue(QueryValue::array_t(value.begin() + first, value.begin() + last));
  };
}

Query compared(const std::string& sign, Query left, Query right) {
  return [=](const QueryValue& value) -> QueryValue {
    const QueryValue a = left(value);
    const QueryValue b = right(value);
    if (sign == "==") return a == b;
    if (sign == "!=") return a != b;
    const bool ordered = (a.is_number() && b.is_number()) || (a.is_string() && b.is_string());
    if (!ordered) return nullptr;
    const bool less = sign[0] == '<' ? query_less(a, b) : query_less(b, a);
    return less || (sign.size() == 2 && a == b);
  };
}

Query call(QueryFunction function, std::vector<Query> parts) {
  return [=](const QueryValue& value) {
    QueryArguments arguments;
    for (const Query& part : parts) arguments.push_back(part(value));
    return function(arguments);
  };
}

Query sorted_by(Query list, Query key) {
  return [=](const QueryValue& value) {
    QueryValue items = list(value);
    if (!items.is_array()) return QueryValue();
    std::stable_sort(items.begin(), items.end(), [&](const QueryValue& a, const QueryValue& b) {
      return query_less(key(a), key(b));
    });
    return items;
  };
}

// Both bound the depth of the calls that read and apply a query.
constexpr std::size_t longest_bytes = 1000;
constexpr int deepest = 50;

// Recursive descent; a rule that does not fit notes the place and goes to the end of the text.
class QueryParser {
 public:
  explicit QueryParser(const std::string& text) : text_(text) {}

  Result<Query> parse() {
    Query query = pipe();
    skip_blanks();
    if (at_ < text_.size()) misfit("an operator");
    if (!problem_.empty()) return Error{problem_};
    return query;
  }

 private:
  // a | b
  Query pipe() {
    Query left = either();
    while (accept_operator("|")) left = then(left, either());
    return left;
  }

  Query either() { return chain("||", &QueryParser::both, true); }
  Query both() { return chain("&&", &QueryParser::comparison, false); }

  // The first value that is `decisive`, or the last one.
  Query chain(const char* sign, Query (QueryParser::*next)(), bool decisive) {
    Query left = (this->*next)();
    while (accept(sign)) {
      left = [left, right = (this->*next)(), decisive](const QueryValue& value) {
        QueryValue first = left(value);
        return is_true(first) == decisive ? first : right(value);
      };
    }
    return left;
  }

  Query comparison() {
    if (++depth_ > deepest)
      return fail("it is nested more than " + std::to_string(deepest) + " deep");
    Query query = one_comparison();
    --depth_;
    return query;
  }

  Query one_comparison() {
    if (accept_operator("!")) {
      return [inner = comparison()](const QueryValue& value) -> QueryValue {
        return !is_true(inner(value));
      };
    }
    Query left = parts(first(), false);
    for (const char* sign : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (accept(sign)) return compared(sign, left, parts(first(), false));
    }
    return left;
  }

  // What follows a value: `.b`, `[0]`, `[]` … Within a projection, `[]` ends it: it flattens all of
  // what the projection gives.
  Query parts(Query left, bool projecting) {
    while (problem_.empty()) {
      skip_blanks();
      if (accept(".")) {
        left = after_dot(std::move(left));
      } else if (text_.compare(at_, 2, "[]") == 0) {
        if (projecting) break;
        at_ += 2;
        left = projection(then(left, flattened));
      } else if (accept("[")) {
        left = bracket(std::move(left));
      } else {
        break;
      }
    }
    return left;
  }

  // Of each element, with what follows.
  Query projection(Query list) { return each(std::move(list), parts(itself, true)); }
  Query values_of(Query object) { return projection(call(values, {std::move(object)})); }

  Query after_dot(Query left) {
    if (accept("*")) return values_of(std::move(left));
    if (const auto index = number()) return then(std::move(left), element(*index));
    return then(std::move(left), first());
  }

  Query bracket(Query left) {
    if (accept("*")) {
      expect("]");
      return projection(std::move(left));
    }
    if (accept("?")) {
      Query condition = either();
      expect("]");
      return projection(then(std::move(left), fitting(std::move(condition))));
    }
    const auto begin = number();
    if (accept(":")) {
      const auto end = number();
      expect("]");
      return projection(then(std::move(left), slice(begin, end)));
    }
    if (!begin) misfit("a number, '*', '?' or ']'");
    expect("]");
    return then(std::move(left), element(begin.value_or(0)));
  }

  // What a value begins with.
  Query first() {
    skip_blanks();
    const char next = at_ < text_.size() ? text_[at_] : '\0';
    if (next == '[') return starts_list() ? several() : Query(itself);
    if (accept("@")) return itself;
    if (accept("{")) return object();
    if (accept("*")) return values_of(itself);
    if (accept("(")) {
      Query inner = pipe();
      expect(")");
      return inner;
    }
    if (next == '\'') return constant(quoted('\''));
    if (next == '`') return json_literal();
    if (next == '"') return field(quoted('"'));
    if (const auto value = number()) return constant(*value);
    const std::string name = word();
    return accept("(") ? function(name) : field(name);
  }

  // `[a, b]`, unlike `[0]`, `[]`, `[*]`, `[?…]` and `[1:2]`.
  bool starts_list() const {
    const std::size_t after = text_.find_first_not_of(" \t", at_ + 1);
    return after == text_.npos || std::string("]*?:-0123456789").find(text_[after]) == text_.npos;
  }

  Query several() {
    expect("[");
    const std::vector<Query> items = list_up_to("]");
    return [items](const QueryValue& value) {
      if (value.is_null()) return QueryValue();
      QueryValue out = QueryValue::array();
      for (const Query& item : items) out.push_back(item(value));
      return out;
    };
  }

  std::vector<Query> list_up_to(const char* end) {
    std::vector<Query> items;
    do {
      items.push_back(either());
    } while (accept(","));
    expect(end);
    return items;
  }

  Query object() {
    std::vector<std::pair<std::string, Query>> items;
    do {
      skip_blanks();
      std::string name = at_ < text_.size() && text_[at_] == '"' ? quoted('"') : word();
      expect(":");
      items.emplace_back(std::move(name), either());
    } while (accept(","));
    expect("}");
    return [items](const QueryValue& value) {
      if (value.is_null()) return QueryValue();
      QueryValue out = QueryValue::object();
      for (const auto& [name, item] : items) out[name] = item(value);
      return out;
    };
  }

  Query function(const std::string& name) {
    if (name == "sort_by") {
      Query list = either();
      expect(",");
      expect("&");
      Query key = either();
      expect(")");
      return sorted_by(std::move(list), std::move(key));
    }
    std::vector<Query> arguments;
    if (!accept(")")) arguments = list_up_to(")");
    const auto* known = std::ranges::find(functions, name, &NamedQueryFunction::name);
    if (known == std::end(functions)) return fail("there is no function '" + name + "'");
    if (known->arguments == arguments.size()) return call(known->call, std::move(arguments));
    return fail(name + "() takes " + std::to_string(known->arguments) + " argument(s)");
  }

  static Query constant(QueryValue value) {
    return [value = std::move(value)](const QueryValue&) { return value; };
  }

  Query json_literal() {
    const std::string text = quoted('`');
    QueryValue value = QueryValue::parse(text, nullptr, false);
    return constant(value.is_discarded() ? QueryValue(text) : std::move(value));
  }

  // Up to the same mark again; a backslash keeps a mark.
  std::string quoted(char mark) {
    std::string out;
    for (++at_; at_ < text_.size() && text_[at_] != mark; ++at_) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] == mark) ++at_;
      out += text_[at_];
    }
    if (at_ >= text_.size())
      misfit(std::string("a closing ") + mark);
    else
      ++at_;
    return out;
  }

  std::optional<std::int64_t> number() {
    skip_blanks();
    std::int64_t value = 0;
    const char* begin = text_.data() + std::min(at_, text_.size());
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc()) return std::nullopt;
    at_ += static_cast<std::size_t>(end - begin);
    return value;
  }

  std::string word() {
    skip_blanks();
    const std::size_t begin = at_;
    const auto fits = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    };
    while (at_ < text_.size() && fits(text_[at_])) ++at_;
    if (begin == at_) {
      misfit("a name");
      return "";
    }
    return text_.substr(begin, at_ - begin);
  }

  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }

  bool accept(const std::string& token) {
    skip_blanks();
    if (at_ >= text_.size() || text_.compare(at_, token.size(), token) != 0) return false;
    at_ += token.size();
    return true;
  }

  // `|` and `!`, not the beginning of `||` and `!=`.
  bool accept_operator(const std::string& token) {
    skip_blanks();
    const char after = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    return after != '|' && after != '=' && accept(token);
  }

  void expect(const std::string& token) {
    if (!accept(token)) misfit("'" + token + "'");
  }

  void misfit(const std::string& wanted) {
    fail("expected " + wanted +
         (at_ < text_.size() ? " at '" + text_.substr(at_, 20) + "'" : std::string(" at the end")));
  }

  Query fail(const std::string& problem) {
    if (problem_.empty()) problem_ = problem;
    at_ = text_.size();
    return itself;
  }

  const std::string& text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::string problem_;
};

}  // namespace

Result<Query> parse_query(const std::string& text) {
  if (text.size() > longest_bytes) {
    return Error{"it is longer than " + std::to_string(longest_bytes) + " bytes"};
  }
  return QueryParser(text).parse();
}

}  // namespace muster
