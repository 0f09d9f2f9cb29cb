#include "cli/job/git_code.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/os/child.h"
#include "launcher/os/private_directory.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

// A repository of some GB over a slow line; whoever has a larger one clones it and names a
// directory.
constexpr Milliseconds fetch_limit{600'000};
constexpr Milliseconds look_limit{60'000};
constexpr std::array<std::string_view, 5> schemes{"https://", "http://", "ssh://", "git://",
                                                  "file://"};

bool is_printable(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c != 0x7f; });
}

bool is_ref(std::string_view ref) {
  return is_word_of(ref, "-_./+") && ref.front() != '-' && !mentions(ref, "..");
}

std::string_view after_scheme(std::string_view url) {
  return url.substr(url.find("://") + 3);
}

// Another user's repository may run that user's programs as us.
Status own_repository(const std::string& url) {
  if (!url.starts_with("file://")) return Done{};
  const std::string path(after_scheme(url));
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return Error{path + ": " + std::strerror(errno)};
  const bool is_trusted = facts.st_uid == ::geteuid() || facts.st_uid == 0;
  if (is_trusted) return Done{};
  return Error{path + " belongs to " + owner_and_mode(facts) + "; clone it and name the directory"};
}

// The words of git before its verb: it asks nobody, and takes no transport that runs a program.
std::vector<std::string> git_words(const fs::path& directory) {
  return {"env",  // a hook of git's, for one, names the repository that it runs for
          "-u",
          "GIT_DIR",
          "-u",
          "GIT_WORK_TREE",
          "-u",
          "GIT_INDEX_FILE",
          "-u",
          "GIT_OBJECT_DIRECTORY",
          "-u",
          "GIT_COMMON_DIR",
          "-u",
          "GIT_NAMESPACE",
          "GIT_TERMINAL_PROMPT=0",
          "git",
          "-C",
          directory.string(),
          "-c",
          "protocol.allow=never",
          "-c",
          "protocol.https.allow=always",
          "-c",
          "protocol.http.allow=always",
          "-c",
          "protocol.ssh.allow=always",
          "-c",
          "protocol.git.allow=always",
          "-c",
          "protocol.file.allow=always",
          "-c",
          "advice.detachedHead=false"};
}

Result<std::string> git(const fs::path& directory, const std::vector<std::string>& verb,
                        Milliseconds limit) {
  std::vector<std::string> words = git_words(directory);
  words.insert(words.end(), verb.begin(), verb.end());
  auto said = run_within(words, limit);
  if (said) return std::string(trimmed(*said));
  const std::string& message = said.error().message;
  const std::size_t why = message.find("' ");
  return Error{"git " + verb.front() +
               (why == message.npos ? ": " + message : message.substr(why + 1))};
}

// The commit alone where the server hands it out under that name, else all branches and tags.
Result<std::string> fetch(const fs::path& directory, const GitPlace& place) {
  const std::string wanted = place.ref.empty() ? "HEAD" : place.ref;
  const auto shallow =
      git(directory, {"fetch", "--quiet", "--depth", "1", "--", place.url, wanted}, fetch_limit);
  if (shallow) return git(directory, {"rev-parse", "--verify", "FETCH_HEAD^{commit}"}, look_limit);
  const auto all =
      git(directory,
          {"fetch", "--quiet", "--tags", "--update-head-ok", "--", place.url,
           "+refs/heads/*:refs/heads/*"},
          fetch_limit);
  if (!all) return all.error();
  auto commit =
      git(directory, {"rev-parse", "--verify", "--quiet", wanted + "^{commit}"}, look_limit);
  if (commit) return commit;
  return Error{"it has no branch, tag or commit " + quoted_text(wanted)};
}

// A snapshot copies what such a link points to: files of the submitter that nobody meant to send.
Status no_links_out(const fs::path& directory) {
  std::error_code failure;
  const std::string root = fs::canonical(directory, failure).string() + '/';
  for (fs::recursive_directory_iterator entry(directory, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    if (!entry->is_symlink(failure)) continue;
    const std::string target = fs::weakly_canonical(entry->path(), failure).string() + '/';
    if (target.starts_with(root)) continue;
    return Error{"its link " + quoted_text(entry->path().lexically_relative(directory).string()) +
                 " leads out of it"};
  }
  if (failure) return Error{"cannot read the clone: " + failure.message()};
  return Done{};
}

}  // namespace

Result<GitPlace> git_place(const std::string& text) {
  GitPlace place{text.starts_with("git+") ? text.substr(4) : text, ""};
  const bool is_known = std::ranges::any_of(
      schemes, [&](std::string_view scheme) { return place.url.starts_with(scheme); });
  if (!is_known || !is_printable(place.url)) {
    return Error{
        "expected git+https://, git+http://, git+ssh://, git:// or git+file://, then a host "
        "and a path"};
  }
  const std::size_t path = place.url.find('/', place.url.find("://") + 3);
  const std::size_t mark = place.url.rfind('@');
  if (path != std::string::npos && mark != std::string::npos && mark > path) {
    place.ref = place.url.substr(mark + 1);
    place.url.resize(mark);
    if (!is_ref(place.ref)) return Error{quoted_text(place.ref) + " is no branch, tag or commit"};
  }
  const std::string_view host =
      after_scheme(place.url).substr(0, after_scheme(place.url).find('/'));
  if (host.starts_with('-')) return Error{quoted_text(host) + " is no host"};
  const std::size_t user = host.find('@');
  const bool is_web = place.url.starts_with("http");  // there a name may be a token
  if (user != host.npos && (is_web || mentions(host.substr(0, user), ":"))) {
    return Error{
        "the URL holds a name or a password, which others could read; leave it to git's credential "
        "helper"};
  }
  return place;
}

Result<GitCode> GitCode::clone(const std::string& text) {
  const auto place = git_place(text);
  const std::string what = "cannot clone the code: ";
  if (!place) return Error{what + place.error().message};
  if (const Status own = own_repository(place->url); !own) {
    return Error{what + own.error().message};
  }
  std::error_code failure;
  std::string name = (fs::temp_directory_path(failure) / "muster-git-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    return Error{what + "no temporary directory " + name + ": " + std::strerror(errno)};
  }
  GitCode code{fs::path(name)};
  const auto made = git(code.directory_, {"init", "--quiet", "--template="}, look_limit);
  auto commit = made ? fetch(code.directory_, *place) : made;
  if (commit) {
    const auto out =
        git(code.directory_, {"checkout", "--quiet", "--detach", *commit}, fetch_limit);
    if (!out) commit = out.error();
  }
  const Status links = commit ? no_links_out(code.directory_) : Status(Done{});
  if (!commit || !links) {
    return Error{what + place->url + ": " + (commit ? links.error() : commit.error()).message};
  }
  code.commit_ = *commit;
  return code;
}

GitCode::~GitCode() {
  std::error_code ignored;
  if (!directory_.empty()) fs::remove_all(directory_, ignored);
}

GitCode::GitCode(GitCode&& other) noexcept
    : directory_(std::exchange(other.directory_, {})), commit_(std::move(other.commit_)) {}

}  // namespace muster
