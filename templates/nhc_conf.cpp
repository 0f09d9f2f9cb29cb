#include "templates/nhc_conf.h"

#include <algorithm>
#include <optional>

#include "templates/nhc_checks.h"
#include "templates/nhc_target.h"
#include "templates/yaml/reader.h"

namespace muster {
namespace {

// A file of a site has a hundred lines; a hostile one must not fill the memory with complaints.
constexpr int most_lines = 10000;
constexpr std::size_t longest_shown = 120;

std::string shown(std::string_view line) {
  std::string out(line.substr(0, longest_shown));
  for (char& c : out) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7F) c = '?';
  }
  return line.size() > longest_shown ? out + "…" : out;
}

class NhcImporter {
 public:
  // Without a host, a fragment for each target.
  explicit NhcImporter(std::optional<std::string_view> host) : host_(host) {}

  NhcImport import(std::string_view text) {
    if (text.size() > max_file_bytes) {
      skip(1, "", "the file is larger than 1 MiB");
      return std::move(out_);
    }
    text = without_byte_order_mark(text);
    int number = 0;
    while (!text.empty()) {
      const std::string_view line = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(text.size(), line.size() + 1));
      if (++number > most_lines) {
        skip(number, line, "the file has more than " + std::to_string(most_lines) + " lines");
        break;
      }
      read_line(line, number);
    }
    finish();
    return std::move(out_);
  }

 private:
  struct Group {
    std::string target;
    NhcProfileBuilder builder;
    bool is_used = false;
  };

  void read_line(std::string_view text, int number) {
    const auto line = split_nhc_line(text, number);
    if (!line) return skip(number, text, line.error().message);
    if (line->words.empty()) return;
    const auto target = NhcTarget::parse(line->target);
    if (!target) return skip(number, text, target.error().message);
    if (host_ && !target->holds(*host_)) return;
    texts_[number] = shown(text);
    Group& group = group_of(host_ ? std::string(*host_) : line->target);
    const std::string why = group.builder.add(*line);
    if (why.empty()) {
      group.is_used = true;
    } else {
      skip(number, text, why);
    }
  }

  Group& group_of(const std::string& target) {
    const auto [found, is_new] = places_.emplace(target, groups_.size());
    if (is_new) groups_.push_back({target, {}, false});
    return groups_[found->second];
  }

  void finish() {
    for (Group& group : groups_) {
      const std::string number = std::to_string(out_.fragments.size() + 1);
      HealthProfile profile = group.builder.finish(groups_.size() == 1 ? "nhc" : "nhc-" + number);
      for (const auto& [line, text] : group.builder.notes()) notes_.emplace(line, text);
      for (const auto& [line, why] : group.builder.skipped_late()) {
        out_.skipped.push_back({line, texts_[line], why});
      }
      if (group.is_used) out_.fragments.push_back({group.target, std::move(profile)});
    }
    std::ranges::stable_sort(out_.skipped, {}, &NhcSkippedLine::line);
    for (const auto& [line, text] : notes_) {
      out_.notes.push_back("line " + std::to_string(line) + ": " + text);
    }
  }

  void skip(int line, std::string_view text, const std::string& why) {
    out_.skipped.push_back({line, shown(text), why});
  }

  std::optional<std::string_view> host_;
  std::vector<Group> groups_;
  std::map<std::string, std::size_t> places_;
  std::map<int, std::string> texts_;
  std::multimap<int, std::string> notes_;
  NhcImport out_;
};

}  // namespace

NhcImport import_nhc_conf(std::string_view text) {
  return NhcImporter(std::nullopt).import(text);
}

NhcImport import_nhc_conf_for(std::string_view text, std::string_view host) {
  return NhcImporter(host).import(text);
}

}  // namespace muster
