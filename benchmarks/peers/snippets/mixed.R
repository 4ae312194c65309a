# A random intercept and slope by maximum likelihood, and predictions for rows of groups that were seen.

lme4 <- function(train, new) {
  library(lme4)
  fitted <- lmer(y ~ x + (1 + x | group), train, REML = FALSE)
  predict(fitted, new)
}
