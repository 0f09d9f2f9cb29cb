#include "cli/image/image.h"

#include "cli/terminal/terminal.h"
#include "launcher/image/login.h"
#include "launcher/image/name.h"
#include "launcher/image/registry.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

// A registry answers within a second, a proxy in front of a dead one within ten or so; a person
// waits for this.
constexpr Milliseconds registry_limit{20'000};
constexpr Milliseconds helper_limit{20'000};  // one that asks a cloud for a token

}  // namespace

std::vector<Finding> image_findings(const JobFile& job, const ImageSettings& images) {
  const std::string& image = job.spec.environment.image;
  if (image.empty() || is_image_allowed(whole_image_name(image), images.allow)) return {};
  return {finding_about(
      job, Severity::error, "environment.image",
      "environment.image: " + quoted_text(whole_image_name(image)) +
          " is not allowed by containers.allow of the cluster file: " + joined(images.allow))};
}

void pin_image(EnvironmentSpec& environment, const ImageSettings& images,
               const CommonOptions& common) {
  if (environment.image.empty()) return;
  environment.runtime = images.runtime;
  const std::string whole = mirrored(whole_image_name(environment.image), images.mirrors);
  environment.pull_name = whole;
  environment.digest = digest_in(whole);
  const bool is_wrong = !environment.digest.empty() && !is_image_digest(environment.digest);
  if (is_wrong) {
    throw VerbEnd(invalid_file, "environment.image: " + quoted_text(environment.digest) +
                                    " is not a digest: sha256: and 64 hex digits");
  }
  if (is_of_no_registry(whole) || !environment.digest.empty()) return;
  const RegistryAnswer answer = ask_registry(whole, registry_limit);
  if (const auto* refused = std::get_if<ImageRefused>(&answer)) {
    throw VerbEnd(invalid_file, "environment.image: " + refused->why);
  }
  if (const auto* found = std::get_if<RegistryImage>(&answer)) {
    environment.digest = found->digest;
    environment.image_bytes = found->bytes;
    return;
  }
  notice("warning: the digest of " + whole +
             " is not known: " + std::get<RegistryUnknown>(answer).why +
             "; nodes run the image that they hold under this name, else they pull it",
         common);
}

std::string login_for_nodes(const EnvironmentSpec& environment, const CommonOptions& common) {
  const std::string name = environment.image.empty() ? "" : pulled_image(environment);
  if (name.empty() || is_of_no_registry(name)) return {};
  const auto login = login_for(name, helper_limit);
  if (login) return *login;
  notice("warning: no login at " + registry_of(name) + ": " + login.error().message, common);
  return {};
}

}  // namespace muster
