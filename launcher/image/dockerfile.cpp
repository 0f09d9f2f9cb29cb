#include "launcher/image/dockerfile.h"

#include <algorithm>
#include <optional>
#include <set>

#include "launcher/os/fd.h"
#include "launcher/os/read_file.h"
#include "launcher/staging/content_hash.h"
#include "launcher/staging/source_tree.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

// "FROM [--platform=…] IMAGE [AS NAME]"
struct From {
  std::string image;  // as written
  std::string stage;
};

std::optional<From> from_of(std::string_view line) {
  auto words = words_in(line);
  if (words.empty() || lower_case(words[0]) != "from") return std::nullopt;
  std::erase_if(words, [](std::string_view word) { return word.starts_with("--"); });
  if (words.size() < 2) return std::nullopt;
  const bool is_named = words.size() >= 4 && lower_case(words[2]) == "as";
  return From{std::string(words[1]), is_named ? lower_case(words[3]) : ""};
}

using BuildArguments = std::map<std::string, std::string>;

void take_argument(std::string_view line, BuildArguments& arguments) {
  const auto words = words_in(line);
  if (words.size() < 2 || lower_case(words[0]) != "arg") return;
  const std::size_t equals = words[1].find('=');
  if (equals == words[1].npos) return;
  std::string value(words[1].substr(equals + 1));
  std::erase_if(value, [](char c) { return c == '"' || c == '\''; });
  arguments[std::string(words[1].substr(0, equals))] = value;
}

std::string filled_in(std::string text, const BuildArguments& arguments) {
  for (auto at = arguments.rbegin(); at != arguments.rend(); ++at) {  // longer names first
    text = replaced(std::move(text), "${" + at->first + "}", at->second);
    text = replaced(std::move(text), "$" + at->first, at->second);
  }
  return text;
}

// Each line with the image that it begins a stage of, where that is none of the file's own.
template <class Visit>
void visit_lines(std::string_view dockerfile, const Visit& visit) {
  BuildArguments arguments;
  std::set<std::string> stages = {"scratch"};
  while (!dockerfile.empty()) {
    const std::string_view line = take_until(dockerfile, '\n');
    const auto from = from_of(line);
    if (!from) {
      take_argument(line, arguments);
      visit(line, {}, {});
      continue;
    }
    const std::string image = filled_in(from->image, arguments);
    const bool is_other = !stages.contains(lower_case(image));
    visit(line, from->image, is_other ? image : "");
    if (!from->stage.empty()) stages.insert(from->stage);
  }
}

Result<std::string> hash_of_file(const std::string& path) {
  const auto file = open_regular_file(path);
  if (!file) return file.error();
  constexpr std::size_t piece_bytes = 1u << 20;
  ContentHash hash;
  std::string piece;
  for (std::int64_t at = 0; read_at(file->get(), at, piece_bytes, piece); at += piece.size()) {
    if (piece.empty()) return hash.finish();
    hash.add(piece);
  }
  return system_error("read " + path);
}

}  // namespace

std::vector<std::string> base_images(std::string_view dockerfile) {
  std::vector<std::string> images;
  visit_lines(dockerfile, [&](std::string_view, const std::string&, const std::string& image) {
    const bool is_known = image.empty() || std::ranges::find(images, image) != images.end();
    if (!is_known) images.push_back(image);
  });
  return images;
}

std::string with_base_images(std::string_view dockerfile,
                             const std::map<std::string, std::string>& others) {
  std::string text;
  visit_lines(dockerfile,
              [&](std::string_view line, const std::string& written, const std::string& image) {
                std::string whole(line);
                const auto other = others.find(image);
                if (other != others.end())
                  whole.replace(whole.find(written), written.size(), other->second);
                text += whole + "\n";
              });
  return text;
}

DockerIgnore::DockerIgnore(std::string_view text) {
  while (!text.empty()) {
    std::string_view line = trimmed(take_until(text, '\n'));
    if (line.empty() || line[0] == '#') continue;
    const bool keeps = line[0] == '!';
    if (keeps) line = trimmed(line.substr(1));
    if (line.starts_with("./")) line.remove_prefix(2);
    while (line.starts_with('/')) line.remove_prefix(1);
    while (line.ends_with('/')) line.remove_suffix(1);
    if (!line.empty()) lines_.push_back({Glob(line), keeps});
  }
}

bool DockerIgnore::leaves_out(std::string_view path) const {
  bool is_out = false;
  for (const Line& line : lines_) {
    for (std::size_t end = 0; end != path.npos;) {
      end = path.find('/', end + 1);
      if (!line.glob.matches(path.substr(0, end))) continue;
      is_out = !line.keeps;
      break;
    }
  }
  return is_out;
}

Result<std::string> build_hash(const std::filesystem::path& context, std::string_view dockerfile) {
  const auto tree = walk_source(context, false);
  if (!tree) return tree.error();
  const DockerIgnore ignore(text_of_file(context / ".dockerignore"));
  ContentHash all;
  const auto add = [&all](std::string_view text) {
    all.add(text);
    all.add(std::string_view("\0", 1));
  };
  add(dockerfile);
  for (const SourceEntry& each : tree->entries) {
    if (ignore.leaves_out(each.entry.path)) continue;
    const bool is_file = each.entry.entry_kind == TreeEntry::Kind::file;
    const auto content = is_file ? hash_of_file(each.from) : each.entry.target;
    if (!content) return content.error();
    add(each.entry.path);
    add(std::to_string(static_cast<int>(each.entry.entry_kind)) + " " +
        std::to_string(each.entry.mode));
    add(*content);
  }
  return all.finish();
}

// conda of the image: in its PATH, or where Azure's images have it.
std::string conda_dockerfile(const std::string& image) {
  return "FROM " + image +
         "\n"
         "COPY conda.yml /opt/muster/conda.yml\n"
         "RUN \"$(command -v conda || echo /opt/miniconda/bin/conda)\" env create"
         " -p /opt/muster/env -f /opt/muster/conda.yml\n"
         "ENV PATH=/opt/muster/env/bin:${PATH:-/usr/local/bin:/usr/bin:/bin}\n";
}

}  // namespace muster
